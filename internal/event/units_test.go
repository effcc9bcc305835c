package event

import (
	"slices"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		text  string
		max   uint64
		value uint64
		want  perfdata.Attr
	}{
		{"config:0-7", 0xff, 0x5a, perfdata.Attr{Config: 0x5a}},
		{"config:18", 1, 1, perfdata.Attr{Config: 1 << 18}},
		{"config:0-7,32-35", 0xfff, 0xa5b, perfdata.Attr{Config: 0xa_0000_005b}},
		{"config:32-35,0-7", 0xfff, 0xa5b, perfdata.Attr{Config: 0xa_0000_005b}},
		{"config:6-10,44", 0x3f, 0x21, perfdata.Attr{Config: 1<<44 | 1<<6}},
		{"config1:0-63", ^uint64(0), ^uint64(0), perfdata.Attr{Config1: ^uint64(0)}},
		{"config2:63", 1, 1, perfdata.Attr{Config2: 1 << 63}},
		{"config3:4-7", 0xf, 0xf, perfdata.Attr{Config3: 0xf0}},
		{"config4:0,2,4", 7, 5, perfdata.Attr{Config4: 0x11}},
	} {
		f, err := parseFormat(test.text)
		if err != nil {
			t.Fatal(err)
		}
		var got perfdata.Attr
		f.set(&got, f.max())
		f.set(&got, test.value) // set clears the old value
		if f.max() != test.max || got != test.want {
			t.Errorf("%s: max %#x, set %#x gives %+v; want %#x, %+v", test.text, f.max(), test.value, got, test.max, test.want)
		}
	}
}

func TestBoxName(t *testing.T) {
	for name, want := range map[string]string{
		"uncore_imc_0": "uncore_imc", "uncore_imc_12": "uncore_imc", "uncore_imc_free_running_1": "uncore_imc_free_running",
		"smmuv3_pmcg_2b442": "smmuv3_pmcg", "mrvl_ddr_pmu_87e1b0000000": "mrvl_ddr_pmu", "armv8_pmuv3_0": "armv8_pmuv3",
		"armv8_cortex_a53": "armv8_cortex_a53", "amd_df": "amd_df", "cpu": "cpu", "cpu_core": "cpu_core",
		"_0": "_0", "x_": "x_", "ibs_op": "ibs_op", "power_core": "power_core",
	} {
		if got := boxName(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestAddModifiers(t *testing.T) {
	for _, c := range [][3]string{
		{"cycles", "u", "cycles:u"},
		{"cycles", "", "cycles"},
		{"cycles:k", "u", "cycles:ku"},
		{"cycles:u", "u", "cycles:u"},
		{"cpu/event=1,umask=2/", "kp", "cpu/event=1,umask=2/kp"},
		{"cpu/event=1/k", "uk", "cpu/event=1/ku"},
		{"duration_time", "u", "duration_time"},
	} {
		if got := AddModifiers(c[0], c[1]); got != c[2] {
			t.Errorf("AddModifiers(%s, %s) = %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestNearest(t *testing.T) {
	names := candidates([]string{"cycles", "cpu-cycles", "ref-cycles", "bus-cycles", "instructions", "cs", "task-clock"})
	for wrong, want := range map[string][]string{
		"cycels": {"cycles"}, "Instructions": {"instructions"}, "intsructions": {"instructions"}, "sc": {"cs"},
		"rcycles": {"cycles"}, "tsk-clok": {"task-clock"}, "zzz": nil, "bef-cycles": {"ref-cycles", "bus-cycles", "cpu-cycles"},
	} {
		if got := nearest(wrong, names); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", wrong, got, want)
		}
	}
}

// The first spellings of the parts form the name that lists show; every spelling parses to the same event.
func TestCacheNames(t *testing.T) {
	all := cacheEvents()
	if len(all) != 7*3*2-2-4-4 {
		t.Errorf("%d cache events are possible", len(all))
	}
	for _, c := range all {
		if got, ok := parseCache(c.name()); !ok || got != c {
			t.Errorf("%s: got %v, want %v", c.name(), got, c)
		}
	}
	for _, name := range []string{"L1-dcache-", "L1-dcachex", "LLC--loads", "LLC-loads-loads", "LLC-miss-refs", "-loads", "l1x-load"} {
		if _, ok := parseCache(name); ok {
			t.Errorf("%s is a cache event", name)
		}
	}
}

func TestClone(t *testing.T) {
	list, err := fake(t, "amd").Parse("{cycles,cs}:u")
	if err != nil {
		t.Fatal(err)
	}
	list.Clone().Events()[0].Name = "changed"
	if got := list.Events()[0].Name; got != "cycles" {
		t.Errorf("a clone shares its events: %s", got)
	}
}
