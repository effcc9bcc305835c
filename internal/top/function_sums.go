package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
)

// functionSums are the sums of samples by function, of an interval and since the start.
type functionSums struct {
	began     time.Time
	ended     time.Time // when the last interval did
	functions map[functionKey]*function
	rest      *function // functions without room, and those that were forgotten
	callers   *callers  // nil without stacks
	watched   *watched  // nil before the first call of watch
	lastID    uint64

	events []eventTotal
	now    interval
	number uint64 // of intervals that ended
}

// Limits of what functionSums keeps.
const (
	mostFunctions = 16384
	historyLength = 16 // intervals in a sparkline
)

// interval is what happened since the last reading, besides the samples.
type interval struct {
	end    time.Time
	window time.Duration
	losses profile.Losses
}

// eventTotal is an event with all its samples.
type eventTotal struct {
	profile.Event
	samplePair
}

// sampleSum is a number of samples and the sum of their values.
type sampleSum struct{ samples, value uint64 }

func (s *sampleSum) add(o sampleSum) { s.samples, s.value = s.samples+o.samples, s.value+o.value }

// samplePair has the samples of an interval and those since the start.
type samplePair struct{ now, total sampleSum }

func (s *samplePair) add(o sampleSum) {
	s.now.add(o)
	s.total.add(o)
}

// functionKey identifies a function. Addresses distinguish functions with equal names, such as those of several loads of a BPF program.
type functionKey struct {
	path, buildID, name string
	program             uint32 // ID of the BPF program
	start               uint64
}

// function is a function with its samples.
type function struct {
	functionKey
	id     uint64
	object string // short name of where it is
	events []samplePair
	recent [historyLength]float64 // shares of the first event, by number of the interval
}

// nameless is the name of all functions of a file that have no symbol.
const nameless = "[unknown]"

func newFunctionSums(withCallers bool, events int) *functionSums {
	s := &functionSums{functions: make(map[functionKey]*function), events: make([]eventTotal, events)}
	s.rest = s.newFunction(functionKey{name: "[others]"}, "-")
	if withCallers {
		s.callers = newCallers()
	}
	return s
}

func (s *functionSums) newFunction(key functionKey, object string) *function {
	s.lastID++
	return &function{functionKey: key, id: s.lastID, object: object, events: make([]samplePair, len(s.events))}
}

// add adds the samples of a profile whose events are those of the session.
func (s *functionSums) add(p *profile.Profile, dsoOf func(profile.ModuleID) *replay.DSO) {
	if s.began.IsZero() {
		s.began = p.Info.Start
	}
	s.now.end = p.Info.Start.Add(p.Info.Duration)
	s.ended = s.now.end
	s.now.window += p.Info.Duration
	s.now.losses.Add(&p.Losses)
	if s.callers != nil {
		s.callers.begin(p)
	}
	known := make([]*function, max(1, len(p.Frames()))) // by frame
	for i := range p.Samples() {
		one := &p.Samples()[i]
		if int(one.Event) >= len(s.events) {
			continue
		}
		f := known[one.Leaf]
		if f == nil {
			f = s.function(p, one.Leaf)
			known[one.Leaf] = f
		}
		sum := sampleSum{one.Count, one.Value}
		f.events[one.Event].add(sum)
		s.events[one.Event].samplePair.add(sum)
		if one.Event != 0 {
			continue
		}
		if s.callers != nil {
			s.callers.add(p, one, f.id)
		}
		if w := s.watched; w != nil {
			if w.dso == nil && w.id == f.id {
				w.find(p, one.Leaf, dsoOf)
			}
			w.add(f, p.Frames()[one.Leaf].Address, sum)
		}
	}
	for i := range min(len(p.Events), len(s.events)) {
		s.events[i].Event = p.Events[i]
	}
}

// function returns the function of a frame, or rest if there is no room for another one.
func (s *functionSums) function(p *profile.Profile, frame profile.FrameID) *function {
	key, object := identify(p, frame)
	if f := s.functions[key]; f != nil {
		return f
	}
	if len(s.functions) >= mostFunctions {
		return s.rest
	}
	f := s.newFunction(key, object)
	s.functions[key] = f
	return f
}

// identify returns the key of a frame's function and the short name of where the function is.
func identify(p *profile.Profile, id profile.FrameID) (key functionKey, object string) {
	if id == 0 {
		return functionKey{name: nameless}, nameless
	}
	frame := p.Frames()[id]
	module, of := p.Modules.At(frame.Module), p.Functions.At(frame.Function)
	key = functionKey{path: p.Strings.At(module.Path), buildID: p.Strings.At(module.BuildID), name: nameless}
	if frame.Function != 0 {
		key.name, key.start = p.Strings.At(of.Name), of.Start
	}
	object = cmp.Or(p.Strings.At(module.Name), nameless)
	switch {
	case of.Program != 0:
		key.program = p.Programs.At(of.Program).ID
		object = fmt.Sprint("bpf_prog ", key.program)
		key.name = withoutTag(key.name)
	case frame.Kind == profile.Kernel && strings.HasPrefix(object, "[kernel."):
		object = "[kernel]"
	}
	return key, object
}

// withoutTag returns the name of a BPF function without the kernel's prefix bpf_prog_TAG_. A function without a name of its own keeps it.
func withoutTag(name string) string {
	rest, is := strings.CutPrefix(name, "bpf_prog_")
	if _, own, named := strings.Cut(rest, "_"); is && named && own != "" {
		return own
	}
	return name
}

// leastShown is the share since the start from which on a function is shown without samples in the interval.
const leastShown = 0.005

// reading returns the samples since the last reading, and begins another interval.
func (s *functionSums) reading() *Reading {
	r := &Reading{Time: s.now.end, Window: s.now.window, Total: s.totalText()}
	for _, f := range s.functions {
		if s.advance(f) {
			r.Rows = append(r.Rows, s.row(f))
		}
	}
	if s.advance(s.rest) {
		r.Rows = append(r.Rows, s.row(s.rest))
	}
	for _, f := range s.functions {
		f.turn()
	}
	s.rest.turn()
	if s.watched != nil {
		s.watched.turn()
	}
	for i := range s.events {
		s.events[i].now = sampleSum{}
	}
	s.now = interval{}
	s.number++
	s.forget()
	if s.callers != nil {
		s.callers.forget()
	}
	return r
}

// turn begins another interval.
func (f *function) turn() {
	for i := range f.events {
		f.events[i].now = sampleSum{}
	}
}

// advance continues the history of a function, and reports whether the function is shown.
func (s *functionSums) advance(f *function) (shown bool) {
	f.recent[s.number%historyLength] = s.share(f, 0)
	for i := range f.events {
		shown = shown || f.events[i].now.samples > 0
	}
	return shown || part(f.events[0].total.value, s.events[0].total.value) >= leastShown
}

func part(value, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(value) / float64(whole)
}

// share returns a function's share of an event's values in the interval.
func (s *functionSums) share(f *function, event int) float64 {
	return part(f.events[event].now.value, s.events[event].now.value)
}

func (s *functionSums) row(f *function) Row {
	first := &f.events[0]
	shares := func(share float64) Cell { return Cell{fmt.Sprintf("%.2f", 100*share), 100 * share} }
	cells := []Cell{shares(s.share(f, 0)), shares(part(first.total.value, s.events[0].total.value)),
		{fmt.Sprint(first.now.samples), float64(first.now.samples)}}
	for i := range f.events[1:] {
		cells = append(cells, shares(s.share(f, i+1)))
	}
	return Row{f.id, f.object + " " + f.name, append(cells, Cell{Text: f.object}, Cell{Text: s.history(f)}, Cell{Text: f.name})}
}

// history draws the last shares of a function.
func (s *functionSums) history(f *function) string {
	var shares []float64
	for age := min(historyLength-1, s.number); ; age-- {
		shares = append(shares, f.recent[(s.number-age)%historyLength])
		if age == 0 {
			return bars(shares)
		}
	}
}

// totalText describes in one line all samples of the interval. What is missing comes first, for narrow screens.
func (s *functionSums) totalText() string {
	var b strings.Builder
	for i := range s.events {
		e := &s.events[i]
		if i == 0 {
			fmt.Fprintf(&b, "%d samples of %s%s", e.now.samples, cmp.Or(e.Name, "the event"), s.missingText())
		} else {
			fmt.Fprintf(&b, "; %d of %s", e.now.samples, e.Name)
		}
		switch {
		case e.IsCPUTime():
			fmt.Fprintf(&b, ": %s %% of a CPU", percent(float64(e.now.value)/float64(max(1, s.now.window))))
		case s.now.window > 0:
			fmt.Fprintf(&b, ": %s/s", amount(float64(e.now.value)/s.now.window.Seconds()))
		}
	}
	return b.String()
}

// missingText counts what the interval lacks.
func (s *functionSums) missingText() string {
	l := &s.now.losses
	text := fmt.Sprintf(", %d lost", l.Samples)
	note := func(n uint64, what string) {
		if n > 0 {
			text += fmt.Sprintf(", %d %s", n, what)
		}
	}
	unknown, incomplete := uint64(0), uint64(0)
	for _, f := range s.functions {
		if f.name == nameless {
			unknown += f.events[0].now.samples
		}
	}
	for _, reason := range l.Reasons {
		incomplete += reason.Samples
	}
	note(unknown, "in unknown functions")
	note(l.Truncated, "with cut stacks")
	note(incomplete, "without stacks")
	note(l.Records, "records of processes lost")
	return text
}

// forget makes room if little is left: it moves the functions with the smallest values since the start to rest.
func (s *functionSums) forget() {
	if 4*len(s.functions) <= 3*mostFunctions {
		return
	}
	all := make([]*function, 0, len(s.functions))
	for _, f := range s.functions {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *function) int {
		return cmp.Or(cmp.Compare(b.events[0].total.value, a.events[0].total.value), cmp.Compare(a.id, b.id))
	})
	for _, f := range all[mostFunctions/2:] {
		for i := range f.events {
			s.rest.events[i].total.add(f.events[i].total)
		}
		delete(s.functions, f.functionKey)
	}
}

// find returns the function with an ID, or nil if it was forgotten.
func (s *functionSums) find(id uint64) *function {
	if s.rest.id == id {
		return s.rest
	}
	for _, f := range s.functions {
		if f.id == id {
			return f
		}
	}
	return nil
}

func (s *functionSums) forgotten() error {
	return fmt.Errorf("the function was forgotten: %d others have more samples since the start", len(s.functions))
}

// examine describes a function and, if they are known, its callers.
func (s *functionSums) examine(id uint64) (string, error) {
	f := s.find(id)
	if f == nil {
		return "", s.forgotten()
	}
	var b strings.Builder
	b.WriteString(f.description(s))
	if s.callers == nil {
		b.WriteString("\nThe callers are unknown: give -g to sample stacks.\n")
		return b.String(), nil
	}
	s.callers.write(&b, f.id)
	return b.String(), nil
}

// description has what is known of a function besides its callers.
func (f *function) description(s *functionSums) string {
	var b strings.Builder
	line := func(title, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", title, printable.Text(value))
		}
	}
	line("function", f.name)
	line("object", f.object)
	if f.path != f.object {
		line("file", f.path)
	}
	line("build ID", f.buildID)
	if f.start != 0 {
		line("address", fmt.Sprintf("%#x", f.start))
	}
	if f.program != 0 {
		line("program", fmt.Sprintf("%d: bperf prog show %d", f.program, f.program))
	}
	for i := range f.events {
		all, whole := f.events[i].total, s.events[i].total
		line(cmp.Or(s.events[i].Name, "samples"), fmt.Sprintf("%.2f %% since %s: %d of %d samples", 100*part(all.value, whole.value),
			s.began.Format(time.TimeOnly), all.samples, whole.samples))
	}
	return b.String()
}
