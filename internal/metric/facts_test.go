package metric

import (
	"fmt"
	"maps"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// machineOf returns /sys of a machine with two sockets of two cores each, with one or two threads per core.
func machineOf(threads int) fstest.MapFS {
	cpus := 4 * threads
	sys := fstest.MapFS{
		"devices/system/cpu/online":  {Data: fmt.Appendf(nil, "0-%d\n", cpus-1)},
		"devices/system/cpu/present": {Data: fmt.Appendf(nil, "0-%d\n", cpus)},
	}
	for cpu := range cpus {
		core := cpu % 4
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		sys[dir+"core_id"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", core%2)}
		sys[dir+"physical_package_id"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", core/2)}
	}
	return sys
}

func TestLiterals(t *testing.T) {
	counts := map[string]float64{"num_cpus": 9, "num_cpus_online": 8, "num_cores": 4, "num_dies": 2, "num_packages": 2, "has_pmem": 0, "smt_on": 1}
	for name, c := range map[string]struct {
		threads int
		session Session
		want    map[string]float64
	}{
		"a task":                 {2, Session{}, map[string]float64{"core_wide": 0, "target_cpu": 0}},
		"the system":             {2, Session{System: true}, map[string]float64{"core_wide": 1, "target_cpu": 1}},
		"one thread of a core":   {2, Session{CPUs: []int{0}}, map[string]float64{"core_wide": 0, "target_cpu": 1}},
		"both threads of a core": {2, Session{CPUs: []int{0, 4}}, map[string]float64{"core_wide": 1, "target_cpu": 1}},
		"without SMT": {1, Session{CPUs: []int{0}}, map[string]float64{"core_wide": 1, "target_cpu": 1, "smt_on": 0, "num_cpus": 5,
			"num_cpus_online": 4}},
	} {
		want := maps.Clone(counts)
		maps.Copy(want, c.want)
		got, err := Literals(machineOf(c.threads), fstest.MapFS{}, c.session)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestLiteralsOfVendors(t *testing.T) {
	sys := machineOf(1)
	sys["bus/event_source/devices/armv8_pmuv3_0/caps/slots"] = &fstest.MapFile{Data: []byte("0x00000008\n")}
	sys["firmware/acpi/tables/NFIT"] = &fstest.MapFile{}
	for model, want := range map[string]float64{
		"Intel(R) Xeon(R) Platinum 8171M CPU @ 2.60GHz": 2.6e9,
		"Pentium(R) M @ 900MHz":                         900e6,
		"AMD EPYC 7763 64-Core Processor":               0,
	} {
		proc := fstest.MapFS{"cpuinfo": {Data: []byte("processor\t: 0\nmodel name\t: " + model + "\nflags\t: fpu\n")}}
		for _, kernel := range []float64{0, 2.1e9} {
			got, err := Literals(sys, proc, Session{ClockFrequency: kernel})
			if err != nil {
				t.Fatal(err)
			}
			hz, known := got["system_tsc_freq"]
			if kernel != 0 {
				want = kernel
			}
			if got["slots"] != 8 || got["has_pmem"] != 1 || hz != want || known != (hz != 0) {
				t.Errorf("%s, kernel %v: got %v", model, kernel, got)
			}
		}
	}
}

func TestNMIWatchdog(t *testing.T) {
	for text, want := range map[string]bool{"0\n": false, "1\n": true, "": false} {
		if got := NMIWatchdog(fstest.MapFS{"sys/kernel/nmi_watchdog": {Data: []byte(text)}}); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if NMIWatchdog(fstest.MapFS{}) {
		t.Error("a kernel without a watchdog has one")
	}
}
