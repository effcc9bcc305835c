package event

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bperf/bperf/internal/event/vendor"
)

// machineWith returns a machine of a tree whose CPUs have a table.
func machineWith(tree fstest.MapFS, events ...vendor.Event) *Machine {
	m := NewMachine(tree, nil)
	m.cpuid = func(int) string { return "test" }
	m.models["test"] = vendor.New(events, nil)
	return m
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }

func serverTree() fstest.MapFS {
	tree := fstest.MapFS{
		"cpu/type": file("4"), "cpu/format/event": file("config:0-7"), "cpu/format/umask": file("config:8-15"),
		"cpu/format/cmask": file("config:24-31"), "cpu/format/offcore_rsp": file("config1:0-63"), "cpu/events/both": file("event=0x77,cmask=3"), "cpu/events/own": file("event=0x78"),
		"uncore_cha_0/events/cha.reads": file("event=0x79"), "uncore_cha_0/events/cha.reads.unit": file("lines"),
		"uncore_cha_1/events/cha.reads": file("event=0x79"), "uncore_cha_1/events/cha.reads.scale": file("2"),
		"uncore_cha_1/events/cha.reads.per-pkg": file(""),
		"soc/type":                              file("30"), "soc/format/event": file("config:0-7"), "soc/identifier": file("v2"),
		"hisi_sccl1_ddrc0/type": file("31"), "hisi_sccl1_ddrc0/format/event": file("config:0-7"),
	}
	for box, typ := range map[string]string{"uncore_cha_0": "20", "uncore_cha_1": "21", "uncore_chacms_0": "22"} {
		tree[box+"/type"], tree[box+"/cpumask"], tree[box+"/format/event"] = file(typ), file("0"), file("config:0-7")
	}
	return tree
}

func TestVendorEvents(t *testing.T) {
	m := machineWith(serverTree(),
		vendor.Event{Name: "l2.miss", Terms: "event=0x24,umask=0x3f", Scale: 1, Period: 2003},
		vendor.Event{Name: "ocr.x", Terms: "event=0xb7,offcore_rsp=0x10001", Scale: 1},
		vendor.Event{Name: "both", Terms: "event=0x1", Scale: 1},
		vendor.Event{Name: "old", Terms: "event=0x2", Scale: 1, Deprecated: true},
		vendor.Event{Name: "wide", Terms: "event=0x100", Scale: 1},
		vendor.Event{Name: "cha.reads", PMU: "uncore_cha", Terms: "event=0x35", Scale: 64, Unit: "Bytes", PerPkg: true},
		vendor.Event{Name: "cha.writes", PMU: "uncore_cha", Terms: "event=0x36", Scale: 64, Unit: "Bytes", PerPkg: true},
		vendor.Event{Name: "soc.one", PMU: "soc", Terms: "event=0x1", Scale: 1, Compat: "v[12]"},
		vendor.Event{Name: "soc.two", PMU: "soc", Terms: "event=0x1", Scale: 1, Compat: "v3"},
		vendor.Event{Name: "flux", PMU: "hisi_sccl,ddrc", Terms: "event=0x5", Scale: 1})
	for list, want := range map[string][]string{
		"l2.miss":               {"0 l2.miss @cpu 4/0x3f24 sample=2003"},
		"L2.Miss:u":             {"0 L2.Miss:u @cpu 4/0x3f24 sample=2003 !kernel !hv"},
		"cpu/l2.miss,cmask=1/":  {"0 cpu/l2.miss,cmask=1/ @cpu 4/0x1003f24 sample=2003"},
		"cpu/l2.miss,period=9/": {"0 cpu/l2.miss,period=9/ @cpu 4/0x3f24 sample=9"},
		"{ocr.x,old}":           {"0 {ocr.x @cpu 4/0xb7 config1=0x10001", "1 old @cpu 4/0x2}"},
		"both":                  {"0 both @cpu 4/0x1"},
		"BOTH":                  {"0 BOTH @cpu 4/0x1"},
		"cpu/both,cmask=1/":     {"0 cpu/both,cmask=1/ @cpu 4/0x1000001"},
		"own":                   {"0 own @cpu 4/0x78"},
		"cha.reads": {"0 cha.reads @uncore_cha_0 20/0x35 cpus=0 uncore ×64 lines",
			"0 cha.reads @uncore_cha_1 21/0x35 cpus=0 uncore ×2 Bytes per-pkg"},
		"cha.writes": {"0 cha.writes @uncore_cha_0 20/0x36 cpus=0 uncore ×64 Bytes per-pkg",
			"0 cha.writes @uncore_cha_1 21/0x36 cpus=0 uncore ×64 Bytes per-pkg"},
		"uncore_cha_1/cha.reads/": {"0 uncore_cha_1/cha.reads/ @uncore_cha_1 21/0x35 cpus=0 uncore ×2 Bytes per-pkg"},
		"soc.one":                 {"0 soc.one @soc 30/0x1"},
		"flux":                    {"0 flux @hisi_sccl1_ddrc0 31/0x5"},
	} {
		events, err := m.Parse(list)
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if got := formatList(events); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", list, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	for list, want := range map[string]string{
		"l2.mis":                     "Did you mean l2.miss?",
		"cpu/l2.mis/":                "Did you mean l2.miss?",
		"soc.two":                    "there is no event soc.two",
		"cpu/cha.reads/":             "cpu has no event or term cha.reads",
		"wide":                       "event wide of cpu cannot be used, its vendor says \"event=0x100\": 0x100 is too great for event",
		"uncore_chacms_0/cha.reads/": "uncore_chacms_0 has no event or term cha.reads",
	} {
		if _, err := m.Parse(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", list, err, want)
		}
	}
	var listed []string
	for _, d := range m.describePMUs() {
		listed = append(listed, d.Name)
	}
	want := []string{"cpu/both/", "cpu/own/", "cpu/l2.miss/", "cpu/ocr.x/", "cpu/wide/", "hisi_sccl1_ddrc0/flux/", "soc/soc.one/",
		"uncore_cha/cha.reads/", "uncore_cha/cha.writes/"}
	if !slices.Equal(listed, want) {
		t.Errorf("listed:\ngot  %v\nwant %v", listed, want)
	}
}

// Kinds of cores have separate tables: on x86 the events name the PMU, on arm64 each PMU has CPUs of another model.
func TestVendorEventsOfCores(t *testing.T) {
	tree := fstest.MapFS{}
	for pmu, files := range map[string][2]string{"cpu_core": {"4", "0"}, "cpu_atom": {"10", "1"}} {
		tree[pmu+"/type"], tree[pmu+"/cpus"], tree[pmu+"/format/event"] = file(files[0]), file(files[1]), file("config:0-7")
	}
	tree["cpu_core/events/one"] = file("event=0x77")
	m := machineWith(tree,
		vendor.Event{Name: "both", PMU: "cpu_core", Terms: "event=0x1", Scale: 1},
		vendor.Event{Name: "both", PMU: "cpu_atom", Terms: "event=0x2", Scale: 1},
		vendor.Event{Name: "one", PMU: "cpu_atom", Terms: "event=0x3", Scale: 1})
	list, err := m.Parse("both,one")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0 cpu_core/both/ @cpu_core 4/0x1 cpus=0", "0 cpu_atom/both/ @cpu_atom 10/0x2 cpus=1",
		"1 cpu_core/one/ @cpu_core 4/0x77 cpus=0", "1 cpu_atom/one/ @cpu_atom 10/0x3 cpus=1"}
	if got := formatList(list); !slices.Equal(got, want) {
		t.Errorf("x86:\ngot  %v\nwant %v", got, want)
	}

	arm := fstest.MapFS{}
	for pmu, files := range map[string][2]string{"armv8_cortex_a53": {"8", "0-3"}, "armv8_cortex_a72": {"9", "4-5"}} {
		arm[pmu+"/type"], arm[pmu+"/cpus"], arm[pmu+"/format/event"] = file(files[0]), file(files[1]), file("config:0-15")
	}
	m = machineWith(arm)
	m.cpuid = func(cpu int) string { return map[bool]string{false: "a53", true: "a72"}[cpu >= 4] }
	m.models["a53"] = vendor.New([]vendor.Event{{Name: "small", Terms: "event=0x11", Scale: 1}}, nil)
	m.models["a72"] = vendor.New([]vendor.Event{{Name: "big", Terms: "event=0x12", Scale: 1}}, nil)
	if list, err = m.Parse("big,small"); err != nil {
		t.Fatal(err)
	}
	want = []string{"0 big @armv8_cortex_a72 9/0x12 cpus=4,5", "1 small @armv8_cortex_a53 8/0x11 cpus=0,1,2,3"}
	if got := formatList(list); !slices.Equal(got, want) {
		t.Errorf("arm64:\ngot  %v\nwant %v", got, want)
	}
}

// Generic events and those of terms do not touch the tables.
func TestTablesUntouched(t *testing.T) {
	m := machineWith(serverTree())
	m.cpuid = func(int) string {
		t.Error("the table was read")
		return ""
	}
	for _, list := range []string{"cycles", "cpu-clock", "L1-dcache-loads", "r1a8", "cpu/event=1,umask=2/", "cpu/config=1/",
		"uncore_cha/event=1/", "cpu/cycles/", "duration_time"} {
		if _, err := m.Parse(list); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}
