package metric

import (
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/pattern"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// Session is what literals ask of the session.
type Session struct {
	System bool  // it counts on all CPUs
	CPUs   []int // the CPUs that it counts on; nil without -C

	ClockFrequency float64 // that of the CPU's time stamp counter in Hz, as the kernel reports it; 0 if it does not
}

// Literals reads the values of the literals of expressions. The caller passes /sys and /proc. A literal that the machine does not describe,
// such as the frequency of an AMD CPU's TSC in a virtual machine, has no value.
func Literals(sys, proc fs.FS, s Session) (map[string]float64, error) {
	topology, err := target.ReadTopology(sys)
	if err != nil {
		return nil, err
	}
	present, err := procfs.CPUs(sys, "present")
	if err != nil {
		return nil, fmt.Errorf("read the CPUs of the machine: %w", err)
	}
	literals := LiteralsOf(topology, len(present), procfs.ReadCPUInfo(proc)["model name"], s)
	_, err = fs.Stat(sys, "firmware/acpi/tables/NFIT") // the firmware's table of persistent memory
	literals["has_pmem"] = truth(err == nil)
	if v, known := slots(sys); known {
		literals["slots"] = v
	}
	return literals, nil
}

// LiteralsOf returns the values of the literals that follow from where the online CPUs are, how many CPUs the machine has and the name of
// their model, which may be empty.
func LiteralsOf(topology target.Topology, present int, model string, s Session) map[string]float64 {
	cores, dies, packages := make(map[string][]int), make(map[string]bool), make(map[string]bool)
	for cpu, at := range topology {
		cores[at.CoreID()] = append(cores[at.CoreID()], cpu)
		dies[at.DieID()] = true
		packages[at.SocketID()] = true
	}
	smt := false
	for _, threads := range cores {
		smt = smt || len(threads) > 1
	}
	literals := map[string]float64{
		"smt_on":          truth(smt),
		"core_wide":       truth(s.System || s.CPUs != nil && (!smt || wholeCores(cores, s.CPUs))),
		"target_cpu":      truth(s.System || s.CPUs != nil),
		"num_cpus":        float64(present),
		"num_cpus_online": float64(len(topology)),
		"num_cores":       float64(len(cores)),
		"num_dies":        float64(len(dies)),
		"num_packages":    float64(len(packages)),
	}
	if v := cmp.Or(s.ClockFrequency, nominalFrequency(model)); v != 0 {
		literals["system_tsc_freq"] = v
	}
	return literals
}

// wholeCores reports whether the CPUs are all threads of their cores.
func wholeCores(cores map[string][]int, cpus []int) bool {
	counted := make(map[int]bool, len(cpus))
	for _, cpu := range cpus {
		counted[cpu] = true
	}
	for _, threads := range cores {
		n := 0
		for _, cpu := range threads {
			if counted[cpu] {
				n++
			}
		}
		if n != 0 && n != len(threads) {
			return false
		}
	}
	return len(cpus) > 0
}

// slots returns the number of operations that an arm64 CPU can do in a cycle
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-caps).
func slots(sys fs.FS) (float64, bool) {
	files, _ := fs.Glob(sys, "bus/event_source/devices/armv8_*/caps/slots")
	for _, file := range files {
		text, err := fs.ReadFile(sys, file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32); err == nil && n > 0 {
			return float64(n), true
		}
	}
	return 0, false
}

// nominal matches the frequency in the name of a model of Intel's. The TSC runs at that frequency, rounded.
var nominal = pattern.Lazy(`@ ([0-9]+(?:\.[0-9]+)?)([MG])Hz`)

// nominalFrequency returns the frequency in the name of the CPU's model in Hz, or 0. Other frequencies in cpuinfo are not those of the TSC.
func nominalFrequency(model string) float64 {
	match := nominal().FindStringSubmatch(model)
	if match == nil {
		return 0
	}
	v, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return 0
	}
	return v * map[string]float64{"M": 1e6, "G": 1e9}[match[2]]
}

// NMIWatchdog reports whether the kernel's watchdog uses a counter of each CPU.
func NMIWatchdog(proc fs.FS) bool {
	on, err := procfs.Sysctl(proc, "kernel/nmi_watchdog")
	return err == nil && on != 0
}
