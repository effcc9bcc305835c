package event

import (
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/event/vendor"
)

// Kind is the source of an event.
type Kind int

// The kinds of events, in the order of Describe.
const (
	Hardware   Kind = iota
	Cache           // of the CPU
	Software        // counted by the kernel
	ToolEvent       // measured by bperf itself
	PMUEvent        // described by the kernel in sysfs, or by the vendor of the CPU
	Raw             // by its number in the CPU's manual
	Breakpoint      // accesses to an address
	Tracepoint
)

// Description describes an event that Parse accepts.
type Description struct {
	Name    string   // as Parse accepts it; with Syntax a form to fill in
	Aliases []string // other names for it
	Kind    Kind
	PMU     string  // as in Event.PMU; empty if there are several, or none
	Text    string  // a phrase, or empty
	Long    string  // sentences, if there are more than Text; or empty
	Scale   float64 // as in Event
	Unit    string
	Syntax  bool // Name is not an event but a form for several
}

// Describe returns all events except tracepoints: all generic events, and the events of the machine's PMUs. Only an
// attempt to open a generic event shows whether the machine has it. Describe returns an error if event files cannot be used.
func (m *Machine) Describe() ([]Description, error) {
	var all []Description
	core := ""
	if cores := m.corePMUs(); len(cores) == 1 {
		core = cores[0].name
	}
	for _, g := range generics {
		e := g.event()
		scaleClock(&e)
		if g.kind == Hardware {
			e.PMU = core
		}
		all = append(all, Description{Name: g.names[0], Aliases: g.names[1:], Kind: g.kind, PMU: e.PMU,
			Text: g.text, Scale: e.Scale, Unit: e.Unit})
	}
	for _, c := range cacheEvents() {
		all = append(all, Description{Name: c.name(), Kind: Cache, PMU: core, Text: c.text(), Scale: 1})
	}
	all = append(all, m.describePMUs()...)
	all = append(all, syntaxes(m.corePMUs())...)
	slices.SortStableFunc(all, func(a, b Description) int { return int(a.Kind) - int(b.Kind) })
	return all, m.filesErr
}

// describePMUs returns the events in sysfs and those of the vendor, except deprecated ones. Boxes of one kind share one description.
func (m *Machine) describePMUs() []Description {
	var all []Description
	seen := map[string]bool{}
	for _, name := range m.pmuNames() {
		u, err := m.pmu(name)
		if err != nil {
			continue
		}
		if !u.core {
			name = boxName(name)
		}
		for _, alias := range u.aliases() {
			full := name + "/" + alias + "/"
			if seen[full] {
				continue
			}
			seen[full] = true
			scale, unit := 1.0, ""
			of, known := u.vendorEvent(alias)
			if known {
				scale, unit = of.Scale, of.Unit
			}
			// An invalid scale is an error only when the event is used.
			scale, unit, _ = u.aliasUnit(alias, scale, unit)
			d := Description{Name: full, Kind: PMUEvent, PMU: name, Scale: scale, Unit: unit}
			all = append(all, d.with(of.Text))
		}
		for e := range u.vendorEvents() {
			full := name + "/" + e.Name + "/"
			if e.Deprecated || seen[full] {
				continue
			}
			seen[full] = true
			all = append(all, Description{Name: full, Kind: PMUEvent, PMU: name, Scale: e.Scale, Unit: e.Unit}.with(e.Text))
		}
	}
	return all
}

// with returns the description with the vendor's text, which may be nil.
func (d Description) with(text *vendor.Text) Description {
	if text != nil {
		d.Text, d.Long = text.Brief, text.Long
	}
	return d
}

// syntaxes returns the forms of events without names.
func syntaxes(cores []*pmu) []Description {
	name, pmu := "cpu", ""
	if len(cores) > 0 {
		name, pmu = cores[0].name, cores[0].name
	}
	return []Description{
		{Name: "rNNN", Kind: Raw, PMU: pmu, Text: "NNN in hexadecimal, as the CPU's manual encodes the event", Scale: 1, Syntax: true},
		{Name: name + "/t1=v1[,t2=v2,t3 ...]/modifiers", Kind: Raw, PMU: pmu,
			Text: "terms as in /sys/bus/event_source/devices/" + name + "/format", Scale: 1, Syntax: true},
		{Name: "mem:<addr>[/len][:access]", Kind: Breakpoint, PMU: "breakpoint",
			Text: "Accesses (r, w, x) to an address", Scale: 1, Syntax: true},
	}
}

// cacheEvents returns all possible cache events.
func cacheEvents() []cacheEvent {
	var all []cacheEvent
	for cache := range cacheNames {
		for op := range cacheOps {
			for result := range cacheResults {
				if c := (cacheEvent{cache, op, result}); c.possible() {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// cacheTexts has the caches' names in descriptions.
var cacheTexts = []string{"level 1 data cache", "level 1 instruction cache", "last level cache", "data TLB",
	"instruction TLB", "branch predictor", "local memory"}

func (c cacheEvent) text() string {
	verb := [][2]string{{"Loads from", "Loads that missed"}, {"Stores to", "Stores that missed"}, {"Prefetches into", "Prefetches that missed"}}
	return fmt.Sprintf("%s the %s", verb[c.op][c.result], cacheTexts[c.cache])
}
