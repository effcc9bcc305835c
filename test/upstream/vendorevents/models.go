package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bperf/bperf/internal/event/eventfile"
	"github.com/bperf/bperf/internal/event/vendor"
)

// bases are the models that others differ little from: members of a family share most events. The tables of the others are compressed with
// the table of one of these as the dictionary, which makes all tables together less than half as long. Which one of them, size decides.
var bases = []string{"alderlake", "amdzen5", "arm/neoverse-v3", "broadwellx", "goldmont", "icelake", "jaketown", "lunarlake", "sapphirerapids",
	"sierraforest", "skylakex", "snowridgex", "westmereex"}

// read returns the models of an architecture.
func read(source, arch string) (*vendor.Models, error) {
	root := filepath.Join(source, arch)
	entries, err := readEntries(root)
	if err != nil {
		return nil, err
	}
	std := eventfile.Standard{}
	std.Add(entries)
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
		models.Models = append(models.Models, vendor.Model{Name: name, Table: m.Table()})
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
	common.Events = nil // they are the kernel's own events and perf's, which package event has
	models.Models = append(models.Models, vendor.Model{Name: "common", Table: common.Table()})
	// Systems on chips are in directories named sys. Some are below a directory of a vendor, some below that of a model.
	var sys eventfile.Model
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "sys" {
			return err
		}
		m, err := readModel(path, nil)
		sys.Events, sys.Metrics = append(sys.Events, m.Events...), append(sys.Metrics, m.Metrics...)
		return err
	})
	if err != nil || len(sys.Events) == 0 {
		return err
	}
	models.Models = append(models.Models, vendor.Model{Name: "sys", Table: sys.Table()})
	return nil
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

// readMap returns the CPUs of a mapfile.csv.
func readMap(file string) ([]vendor.CPU, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := eventfile.ReadMap(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var cpus []vendor.CPU
	for _, row := range rows {
		if row.Type == "core" {
			cpus = append(cpus, row.CPU)
		}
	}
	return cpus, nil
}

// readEntries returns the entries of the JSON files in a directory.
func readEntries(dir string) ([]eventfile.Entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []eventfile.Entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entries, err := eventfile.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

// readModel returns the events and metrics in a directory.
func readModel(dir string, std eventfile.Standard) (eventfile.Model, error) {
	entries, err := readEntries(dir)
	if err != nil {
		return eventfile.Model{}, err
	}
	var m eventfile.Model
	for _, e := range entries {
		if err := m.Add(e, std); err != nil {
			return m, fmt.Errorf("%s: %w", dir, err)
		}
	}
	return m, nil
}
