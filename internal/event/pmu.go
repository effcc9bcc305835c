package event

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
)

// pmu is one directory of /sys/bus/event_source/devices
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-*).
type pmu struct {
	fsys   fs.FS // the directory of all PMUs
	name   string
	typ    uint32
	core   bool  // counts for the CPUs of one kind, and for tasks on them
	uncore bool  // counts for packages, nodes …, on one CPU of each
	cpus   []int // nil for all

	tables vendorTables
}

// errNoPMU means that there is no PMU of that name.
var errNoPMU = errors.New("no such PMU")

// pmu returns the PMU with this sysfs name.
func (m *Machine) pmu(name string) (*pmu, error) {
	if p, ok := m.pmus[name]; ok {
		return p, nil
	}
	p, err := loadPMU(m.devices, name)
	if err != nil {
		return nil, err
	}
	p.tables = m.vendorTable
	m.pmus[name] = p
	return p, nil
}

func loadPMU(fsys fs.FS, name string) (*pmu, error) {
	text, err := readFile(fsys, name+"/type")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoPMU
	}
	if err != nil {
		return nil, fmt.Errorf("read the type of PMU %s: %w", name, err)
	}
	typ, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("type of PMU %s: %q is not a number", name, strings.TrimSpace(text))
	}
	p := &pmu{fsys: fsys, name: name, typ: uint32(typ), core: name == "cpu"}
	// Core PMUs have "cpus" on machines with several kinds of cores. PMUs that do not count for tasks have "cpumask".
	for _, file := range []string{"cpus", "cpumask"} {
		text, err := readFile(fsys, path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of PMU %s: %w", file, name, err)
		}
		p.cpus = []int{} // none, while nil is all
		if text = strings.TrimSpace(text); text != "" {
			if p.cpus, err = procfs.ParseCPUList(text); err != nil {
				return nil, fmt.Errorf("%s of PMU %s: %w", file, name, err)
			}
		}
		p.core = file == "cpus"
		p.uncore = file == "cpumask"
		break
	}
	return p, nil
}

// pmuNames returns the names of the machine's PMUs.
func (m *Machine) pmuNames() []string {
	names, _ := readNames(m.devices, ".")
	return names
}

// corePMUs returns the PMUs that count generic events, in the order of their types: one, several on
// machines with several kinds of cores, or none.
func (m *Machine) corePMUs() []*pmu {
	if m.core != nil {
		return m.core
	}
	m.core = []*pmu{}
	// A core PMU of this name is the only one: skip the others.
	if p, err := m.pmu("cpu"); err == nil {
		m.core = append(m.core, p)
		return m.core
	}
	for _, name := range m.pmuNames() {
		if !exists(m.devices, name, "cpus") {
			continue
		}
		if p, err := m.pmu(name); err == nil {
			m.core = append(m.core, p)
		}
	}
	slices.SortStableFunc(m.core, func(a, b *pmu) int { return cmp.Compare(a.typ, b.typ) })
	return m.core
}

// OnlyCore limits events that name no PMU to one kind of core. The name is that of its PMU, with or without the prefix "cpu_". It returns an
// error if the machine has no such PMU.
func (m *Machine) OnlyCore(name string) error {
	var names []string
	for _, core := range m.corePMUs() {
		if core.name == name || core.name == "cpu_"+name {
			m.only = core.name
			return nil
		}
		names = append(names, core.name)
	}
	if len(names) == 0 {
		return fmt.Errorf("no core PMU is named %q: this machine has none", name)
	}
	return fmt.Errorf("no core PMU is named %q: this machine has %s", name, strings.Join(names, " and "))
}

// excludes reports whether OnlyCore leaves out a core PMU.
func (m *Machine) excludes(core *pmu) bool { return m.only != "" && core.name != m.only }

// matchPMUs returns the PMUs that a name in an event matches: the PMU of exactly this name, else those that match it as a
// pattern, else the boxes that differ only in their number ("uncore_imc" for uncore_imc_0 and uncore_imc_1). The name can
// omit the prefix "uncore_".
func (m *Machine) matchPMUs(name string) ([]*pmu, error) {
	p, err := m.pmu(name)
	if err == nil {
		return []*pmu{p}, nil
	}
	if !errors.Is(err, errNoPMU) {
		return nil, err
	}
	match := func(full string) bool { return boxName(full) == name }
	if isGlob(name) {
		match = globber(name)
	}
	var found []*pmu
	for _, full := range m.pmuNames() {
		short := strings.TrimPrefix(full, "uncore_")
		if !match(full) && !match(short) && short != name {
			continue
		}
		p, err := m.pmu(full)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, errNoPMU
	}
	// Box 2 comes before box 10.
	slices.SortStableFunc(found, func(a, b *pmu) int {
		return cmp.Or(cmp.Compare(boxName(a.name), boxName(b.name)), cmp.Compare(len(a.name), len(b.name)))
	})
	return found, nil
}

// boxName returns the name of a PMU without the suffix that distinguishes several of its kind: "_" and a decimal
// number or an address. An address is a hexadecimal number of at least 4 digits (the "a53" of armv8_cortex_a53 is neither).
func boxName(name string) string {
	i := strings.LastIndexByte(name, '_')
	if i <= 0 || i == len(name)-1 {
		return name
	}
	suffix := name[i+1:]
	if strings.Trim(suffix, "0123456789") == "" ||
		len(suffix) >= 4 && strings.Trim(suffix, "0123456789abcdef") == "" {
		return name[:i]
	}
	return name
}

// aliasFiles has the suffixes of the files in events/ that describe the event of the same name.
var aliasFiles = []string{".scale", ".unit", ".snapshot", ".per-pkg"}

func isAliasName(name string) bool {
	return name != "" && !slices.ContainsFunc(aliasFiles, func(s string) bool { return strings.HasSuffix(name, s) })
}

// alias returns the text of an event file, such as "event=0xcd,umask=0x1,ldlat=3".
func (p *pmu) alias(name string) (string, bool, error) {
	if !isAliasName(name) {
		return "", false, nil
	}
	text, err := readFile(p.fsys, path.Join(p.name, "events")+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read event %s of PMU %s: %w", name, p.name, err)
	}
	return strings.TrimSpace(text), true, nil
}

// aliases returns the names of all event files.
func (p *pmu) aliases() []string {
	names, _ := readNames(p.fsys, p.name+"/events")
	return slices.DeleteFunc(names, func(s string) bool { return !isAliasName(s) })
}

// aliasUnit returns what an event's .scale and .unit files contain, and the scale and unit of the caller where there is no such file.
func (p *pmu) aliasUnit(name string, scale float64, unit string) (float64, string, error) {
	file := path.Join(p.name, "events") + "/" + name
	if text, err := readFile(p.fsys, file+".unit"); err == nil {
		unit = strings.TrimSpace(text)
	}
	text, err := readFile(p.fsys, file+".scale")
	if err != nil {
		return scale, unit, nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || v != v || v-v != 0 {
		return 1, unit, fmt.Errorf("scale of event %s of PMU %s: %q is not a number", name, p.name, strings.TrimSpace(text))
	}
	return v, unit, nil
}

// describe sets e's fields from an event file's .scale, .unit, .snapshot and .per-pkg files. Without a .scale or .unit file e keeps its own.
func (p *pmu) describe(e *Event, alias string) (err error) {
	file := path.Join(p.name, "events") + "/" + alias
	e.Scale, e.Unit, err = p.aliasUnit(alias, e.Scale, e.Unit)
	e.Snapshot = exists(p.fsys, file+".snapshot")
	e.PerPkg = exists(p.fsys, file+".per-pkg")
	return err
}

// formats returns the names of the PMU's terms.
func (p *pmu) formats() []string {
	names, _ := readNames(p.fsys, p.name+"/format")
	return names
}

// format returns the format of a term; ok is false if the PMU has no such term.
func (p *pmu) format(name string) (f format, ok bool, err error) {
	text, err := readFile(p.fsys, path.Join(p.name, "format")+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return format{}, false, nil
	}
	if err != nil {
		return format{}, false, fmt.Errorf("read the format of %s of PMU %s: %w", name, p.name, err)
	}
	f, err = parseFormat(strings.TrimSpace(text))
	if err != nil {
		return format{}, false, fmt.Errorf("format of %s of PMU %s: %w", name, p.name, err)
	}
	return f, true, nil
}
