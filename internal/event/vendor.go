package event

import (
	"cmp"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"strings"

	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/procfs"
)

// CPUVariable is the environment variable that replaces the CPU's identification, as in perf: "GenuineIntel-6-8E-A" or "0x00000000410fd0c0".
const CPUVariable = "PERF_CPUID"

// hostCPU identifies a CPU of this machine as vendor.ForCPU takes it.
func hostCPU(cpu int) string {
	if id := os.Getenv(CPUVariable); id != "" {
		return id
	}
	return vendor.ID(procfs.ReadCPUInfo(os.DirFS("/proc")).ID(os.DirFS("/sys"), cpu))
}

// vendorTables returns the table of a CPU, or nil.
type vendorTables func(cpu int) *vendor.Table

// vendorTable returns the vendor's events for a CPU. It decodes the table of each model once.
func (m *Machine) vendorTable(cpu int) *vendor.Table {
	if m.cpuid == nil {
		return nil
	}
	if t, ok := m.tables[cpu]; ok {
		return t
	}
	id := m.cpuid(cpu)
	t, ok := m.models[id]
	if !ok {
		t, _ = vendor.ForCPU(id) // it is part of the program, whose tests decode every table
		t = m.withFiles(t, id)
		m.models[id] = t
	}
	m.tables[cpu] = t
	return t
}

// withFiles returns a table with what the user's event files have for a CPU.
func (m *Machine) withFiles(t *vendor.Table, cpuid string) *vendor.Table {
	if m.files == nil {
		return t
	}
	more, warnings, err := m.files.Load(cpuid)
	for _, w := range warnings {
		m.warn(w)
	}
	m.filesErr = cmp.Or(m.filesErr, err)
	if more == nil {
		return t
	}
	return t.With(more)
}

// VendorTable returns the events and metrics that the vendor of the CPU publishes: of the first core PMU's CPUs where there are several. The
// table is nil if the machine's CPU is not known.
func (m *Machine) VendorTable() *vendor.Table {
	if cores := m.corePMUs(); len(cores) > 0 {
		return cores[0].vendorTable()
	}
	return m.vendorTable(0)
}

// vendorTable returns the table of the PMU's first CPU. Kinds of cores can be different models.
func (p *pmu) vendorTable() *vendor.Table {
	switch {
	case p.tables == nil:
		return nil
	case len(p.cpus) > 0:
		return p.tables(p.cpus[0])
	}
	return p.tables(0)
}

// vendorKeys returns the names under which a table has events of the PMU (vendor.Event.PMU).
func (p *pmu) vendorKeys(t *vendor.Table) []string {
	var keys []string
	for _, key := range t.PMUs() {
		if key == "" && p.core && !p.isHybrid() || key != "" && isBox(p.name, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// isHybrid reports whether the PMU is one of those of an x86 CPU with several kinds of cores, whose events name it.
func (p *pmu) isHybrid() bool { return strings.HasPrefix(p.name, "cpu_") }

// isBox reports whether a PMU is a box of the kind that a vendor's event names. The parts of "hisi_sccl,ddrc" are each followed by a number.
func isBox(name, kind string) bool {
	if name == kind {
		return true
	}
	parts := strings.Split(kind, ",")
	for _, part := range parts[:len(parts)-1] {
		rest, ok := strings.CutPrefix(name, part)
		if !ok {
			return false
		}
		name = strings.TrimPrefix(strings.TrimLeft(rest, "0123456789"), "_")
	}
	last := parts[len(parts)-1]
	return boxName(name) == last || strings.TrimRight(name, "0123456789") == last
}

// vendorEvent returns the vendor's event of this name.
func (p *pmu) vendorEvent(name string) (vendor.Event, bool) {
	t := p.vendorTable()
	for _, key := range p.vendorKeys(t) {
		if e, ok := t.Event(key, name); ok && compatible(p.fsys, p.name, e.Compat) {
			return e, true
		}
	}
	return vendor.Event{}, false
}

// vendorEvents returns the vendor's events of the PMU.
func (p *pmu) vendorEvents() iter.Seq[vendor.Event] {
	return func(yield func(vendor.Event) bool) {
		t := p.vendorTable()
		for _, key := range p.vendorKeys(t) {
			for e := range t.Events(key) {
				if compatible(p.fsys, p.name, e.Compat) && !yield(e) {
					return
				}
			}
		}
	}
}

// compatible reports whether a PMU, which says in the file identifier what it is, fits Compat of an event or metric.
func compatible(devices fs.FS, pmu, compat string) bool {
	if compat == "" {
		return true
	}
	text, err := readFile(devices, pmu+"/identifier")
	if err != nil {
		return false
	}
	ok, err := regexp.MatchString("^(?:"+compat+")$", strings.TrimSpace(text))
	return ok && err == nil
}

// vendorCandidates returns the names of the vendor's events.
func (p *pmu) vendorCandidates() []candidate {
	var all []candidate
	for e := range p.vendorEvents() {
		all = append(all, candidate{e.Name, e.Name})
	}
	return all
}
