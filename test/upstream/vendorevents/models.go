package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/event/vendor"
)

// bases are the models that others differ little from: members of a family share most events. The tables of the others are compressed with
// the table of one of these as the dictionary, which makes all tables together less than half as long. Which one of them, size decides.
var bases = []string{"alderlake", "amdzen5", "arm/neoverse-v3", "broadwellx", "goldmont", "icelake", "jaketown", "lunarlake", "sapphirerapids",
	"sierraforest", "skylakex", "snowridgex", "westmereex"}

// read returns the models of an architecture.
func read(source, arch string) (*vendor.Models, error) {
	root := filepath.Join(source, arch)
	std, err := readStandard(root)
	if err != nil {
		return nil, err
	}
	cpus, err := readMap(filepath.Join(root, "mapfile.csv"))
	if err != nil {
		return nil, err
	}
	models := &vendor.Models{CPUs: cpus}
	var names []string
	for _, cpu := range cpus {
		if !slices.Contains(names, cpu.Model) {
			names = append(names, cpu.Model)
		}
	}
	rank := func(name string) int {
		if slices.Contains(bases, name) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		m, err := readModel(filepath.Join(root, name), std)
		if err != nil {
			return nil, err
		}
		models.Models = append(models.Models, vendor.Model{Name: name, Table: m.table()})
	}
	if err := chooseBases(models.Models); err != nil {
		return nil, err
	}
	return models, addShared(models, source, root)
}

// addShared adds the tables that are part of each model's.
func addShared(models *vendor.Models, source, root string) error {
	common, err := readModel(filepath.Join(source, "common", "common"), nil)
	if err != nil {
		return err
	}
	common.events = nil // they are the kernel's own events and perf's, which package event has
	models.Models = append(models.Models, vendor.Model{Name: "common", Table: common.table()})
	// Systems on chips are in directories named sys. Some are below a directory of a vendor, some below that of a model.
	var sys model
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "sys" {
			return err
		}
		m, err := readModel(path, nil)
		sys.events, sys.metrics = append(sys.events, m.events...), append(sys.metrics, m.metrics...)
		return err
	})
	if err != nil || len(sys.events) == 0 {
		return err
	}
	models.Models = append(models.Models, vendor.Model{Name: "sys", Table: sys.table()})
	return nil
}

// table returns the model's table. Of events with the same name on the same PMU the first counts, as in perf.
func (m model) table() *vendor.Table {
	type key struct{ pmu, name, compat string }
	seen := map[key]bool{}
	m.events = slices.DeleteFunc(m.events, func(e vendor.Event) bool {
		k := key{e.PMU, e.Name, e.Compat}
		again := seen[k]
		seen[k] = true
		return again
	})
	return vendor.New(m.events, m.metrics)
}

func chooseBases(models []vendor.Model) error {
	for i := range models {
		if slices.Contains(bases, models[i].Name) {
			continue
		}
		least := 0
		for _, base := range append([]string{""}, bases...) {
			pair := vendor.Models{Models: []vendor.Model{models[i]}}
			if base != "" {
				at := slices.IndexFunc(models, func(m vendor.Model) bool { return m.Name == base })
				if at < 0 {
					continue // of another architecture
				}
				pair.Models = []vendor.Model{models[at], models[i]}
				pair.Models[1].Base = base
			}
			size, err := pair.LastSize()
			if err != nil {
				return err
			}
			if least == 0 || size < least {
				least, models[i].Base = size, base
			}
		}
	}
	return nil
}

// readMap reads a mapfile.csv: a pattern of CPUs, a version, a directory and a kind of event.
func readMap(file string) ([]vendor.CPU, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment, r.FieldsPerRecord = '#', 4
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var cpus []vendor.CPU
	for _, row := range rows {
		if row[3] == "core" && !strings.HasPrefix(row[0], "Family") {
			cpus = append(cpus, vendor.CPU{Pattern: row[0], Model: row[2]})
		}
	}
	return cpus, nil
}
