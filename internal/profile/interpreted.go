package profile

import (
	"fmt"
	"slices"
	"strings"
)

// interpreters are functions that run the code of a language, and what makes the runtime give each function of that code a frame and a name.
var interpreters = [...]struct {
	language, loop string
	named          string // prefix of the names of such functions
	advice         string
}{
	{"Python", "_PyEval_EvalFrameDefault", "py::", "use Python 3.12 or later with -X perf"}, // https://docs.python.org/3/howto/perf_profiling.html
	{"JavaScript", "Builtins_InterpreterEntryTrampoline", "JS:", // node --help
		"use node --perf-basic-prof --interpreted-frames-native-stack"},
}

// interpreted says of a stack which of the interpreters run in it, and which of them name what they run: a bit for each.
type interpreted struct{ runs, names uint8 }

func (i interpreted) with(o interpreted) interpreted {
	return interpreted{i.runs | o.runs, i.names | o.names}
}

// Interpreted says how many samples show an interpreter in place of the functions that it runs, and how to see these: a note for each
// language with a hundredth of the samples or more.
func (p *Profile) Interpreted() (notes []string) {
	frames := make([]interpreted, len(p.Frames()))
	for id, f := range p.Frames() {
		name := p.Strings.At(p.Functions.At(f.Function).Name)
		for i := range interpreters {
			in := &interpreters[i]
			if name == in.loop {
				frames[id].runs |= 1 << i
			}
			if strings.HasPrefix(name, in.named) {
				frames[id].names |= 1 << i
			}
		}
	}
	if !slices.ContainsFunc(frames, func(i interpreted) bool { return i.runs != 0 }) {
		return nil
	}
	stacks := make([]interpreted, len(p.Stacks.All()))
	for id, s := range p.Stacks.All()[1:] { // callers come before their callees
		stacks[id+1] = stacks[s.Caller].with(frames[s.Frame])
	}
	var all uint64
	var hidden [len(interpreters)]uint64
	for i := range p.Samples() {
		s := &p.Samples()[i]
		all += s.Count
		in := stacks[s.Stack].with(frames[s.Leaf])
		for i := range hidden {
			if in.runs&^in.names&(1<<i) != 0 {
				hidden[i] += s.Count
			}
		}
	}
	for i, n := range hidden {
		if n > 0 && n >= all/100 {
			notes = append(notes, fmt.Sprintf("%d of %d samples show the interpreter, not the %s functions that it runs; to see these, %s",
				n, all, interpreters[i].language, interpreters[i].advice))
		}
	}
	return notes
}
