package profile

import "strings"

// RemoveDummies removes the events that have no samples by their nature: they only make the kernel write records.
func (p *Profile) RemoveDummies() {
	p.RemoveEvents(func(e *Event) bool { return strings.HasPrefix(e.Name, "dummy:") })
}

// RemoveEvents removes the events that unwanted selects and that have no samples.
func (p *Profile) RemoveEvents(unwanted func(*Event) bool) {
	numbers := make([]int, len(p.Events)) // of the events that stay
	var stay []Event
	for i := range p.Events {
		numbers[i] = len(stay)
		if e := &p.Events[i]; e.Samples > 0 || !unwanted(e) {
			stay = append(stay, *e)
		}
	}
	if len(stay) == len(p.Events) {
		return
	}
	for i := range stay {
		stay[i].Leader = numbers[stay[i].Leader]
	}
	before := p.samples.all
	p.Events, p.samples = stay, samples{}
	for _, s := range before {
		s.Event = uint32(numbers[s.Event])
		p.samples.add(s)
	}
}
