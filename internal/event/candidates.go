package event

import "strings"

// pmuCandidates returns the names that can be before a slash.
func (m *Machine) pmuCandidates() []candidate {
	var c []candidate
	for _, core := range m.corePMUs() {
		c = append(c, candidate{"cpu", core.name})
	}
	for _, name := range m.pmuNames() {
		c = append(c, candidate{name, name})
		if box := boxName(name); box != name {
			c = append(c, candidate{box, box})
		}
		if short, ok := strings.CutPrefix(boxName(name), "uncore_"); ok {
			c = append(c, candidate{short, short})
		}
	}
	return c
}

// allCandidates returns the names of all events of the machine.
func (m *Machine) allCandidates() []candidate {
	var all []candidate
	for _, g := range generics {
		all = append(all, candidates(g.names)...)
	}
	for _, c := range cacheEvents() {
		all = append(all, candidate{c.name(), c.name()})
	}
	boxes := map[string]bool{}
	for _, name := range m.pmuNames() {
		u, err := m.pmu(name)
		if err != nil {
			continue
		}
		all = append(all, candidates(u.aliases())...)
		if box := boxName(name); !boxes[box] {
			boxes[box] = true
			all = append(all, u.vendorCandidates()...)
		}
		all = append(all, candidate{name, name + "/"})
	}
	names, err := m.Tracepoints()
	if err != nil {
		return all // report the unknown event, not tracefs
	}
	for _, name := range names {
		_, short, _ := strings.Cut(name, ":")
		all = append(all, candidate{short, name})
	}
	return all
}
