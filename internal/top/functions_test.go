package top

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
)

var began = time.Date(2026, 3, 14, 8, 0, 0, 0, time.UTC)

// madeProfile makes profiles of an interval of 2 s of cpu-clock.
type madeProfile struct{ *profile.Profile }

func newProfile(number int) madeProfile {
	p := profile.New(0)
	p.Info.Start, p.Info.Duration = began.Add(time.Duration(number)*window), window
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}, {Name: "page-faults", Unit: "count"}}
	return madeProfile{p}
}

// frame returns the frame of a function of a module. The names of BPF programs' modules begin with bpf_prog.
func (p madeProfile) frame(module, name string) profile.FrameID {
	f := profile.Frame{Kind: profile.User, Module: p.Modules.ID(profile.Module{Path: p.Strings.ID("/path/" + module), Name: p.Strings.ID(module)})}
	of := profile.Function{Name: p.Strings.ID(name), Module: f.Module, Start: 0x1000, End: 0x2000}
	switch {
	case strings.HasPrefix(module, "[kernel"):
		f.Kind = profile.Kernel
	case strings.HasPrefix(module, "bpf_prog"):
		f.Kind = profile.BPF
		of.Program = p.Programs.ID(profile.Program{ID: 42, Name: of.Name})
	}
	if name != "" {
		f.Function = p.Functions.ID(of)
	}
	return p.Frame(f)
}

// sample adds samples of 10 ms each, or of a fault each, with a stack, innermost first.
func (p madeProfile) sample(event uint32, count uint64, frames ...profile.FrameID) {
	value := count
	if event == 0 {
		value = count * uint64(10*time.Millisecond)
	}
	p.Add(profile.Sample{Event: event, Leaf: frames[0], Stack: p.Stacks.ID(frames), Count: count, Value: value})
}

// expectFunctions compares the rows of a reading, the largest share first.
func expectFunctions(t *testing.T, s *functionSums, total string, want ...string) {
	t.Helper()
	r := s.reading()
	columns := FunctionColumns(nil)
	Order{}.Sort(columns, r.Rows)
	if diff := cmp.Diff(want, texts(r.Rows)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Total != total {
		t.Errorf("total %q, want %q", r.Total, total)
	}
}

func TestFunctionSums(t *testing.T) {
	s := newFunctionSums(false, 2)
	p := newProfile(0)
	p.sample(0, 60, p.frame("spin", "burn"))
	p.sample(0, 20, p.frame("spin", "burn"))
	p.sample(0, 15, p.frame("[kernel.kallsyms]", "schedule"))
	p.sample(0, 4, p.frame("bpf_prog_0123456789abcdef_on_switch", "bpf_prog_0123456789abcdef_on_switch"))
	p.sample(0, 1, p.frame("spin", ""))
	p.sample(1, 3, p.frame("spin", "burn"))
	p.Losses = profile.Losses{Samples: 2, Records: 3, Truncated: 4, Reasons: []profile.Loss{{Reason: "none", Samples: 5}}}
	s.add(p.Profile, nil)
	expectFunctions(t, s, "100 samples of cpu-clock, 2 lost, 1 in unknown functions, 4 with cut stacks, 5 without stacks, "+
		"3 records of processes lost: 50.000 % of a CPU; 3 of page-faults: 1.5/s",
		"80.00 80.00 80 100.00 spin █ burn",
		"15.00 15.00 15 0.00 [kernel] █ schedule",
		"4.00 4.00 4 0.00 bpf_prog 42 █ on_switch",
		"1.00 1.00 1 0.00 spin █ [unknown]")

	for n := range 2 { // two intervals of sampling, one of the output
		p = newProfile(n + 1)
		p.sample(0, 10, p.frame("spin", "burn"))
		p.sample(0, 40, p.frame("[kernel.kallsyms]", "schedule"))
		s.add(p.Profile, nil)
	}
	expectFunctions(t, s, "100 samples of cpu-clock, 0 lost: 25.000 % of a CPU; 0 of page-faults: 0.0/s",
		"80.00 47.50 80 0.00 [kernel] ▂█ schedule",
		"20.00 50.00 20 0.00 spin █▃ burn",
		"0.00 2.00 0 0.00 bpf_prog 42 █  on_switch",
		"0.00 0.50 0 0.00 spin █  [unknown]")
}

// TestFunctionSumsBounded adds more functions than there is room for.
func TestFunctionSumsBounded(t *testing.T) {
	s := newFunctionSums(false, 1)
	p := newProfile(0)
	const more = 100
	for i := range mostFunctions + more {
		p.sample(0, uint64(1+min(i, 1)), p.frame("many", fmt.Sprint("f", i)))
	}
	p.sample(0, 1000, p.frame("many", "f0"))
	s.add(p.Profile, nil)
	rows := s.reading().Rows
	if len(rows) != mostFunctions+1 {
		t.Errorf("%d rows, want %d", len(rows), mostFunctions+1)
	}
	others := rowOf(&Reading{Rows: rows}, s.rest.id)
	if others == nil || others.Cells[2].Text != fmt.Sprint(2*more) {
		t.Errorf("others %v, want %d samples", others, 2*more)
	}
	if len(s.functions) != mostFunctions/2 {
		t.Errorf("%d functions are kept, want %d", len(s.functions), mostFunctions/2)
	}
	sum := s.rest.events[0].total
	for _, f := range s.functions {
		sum.add(f.events[0].total)
	}
	if sum != s.events[0].total {
		t.Errorf("functions and others have %v, want %v", sum, s.events[0].total)
	}
	if _, there := s.functions[functionKey{path: "/path/many", name: "f0", start: 0x1000}]; !there {
		t.Error("the function with the most samples was forgotten")
	}
}

func TestCallers(t *testing.T) {
	s := newFunctionSums(true, 1)
	p := newProfile(0)
	burn, work, other, main := p.frame("spin", "burn"), p.frame("spin", "work"), p.frame("libx.so", "other"), p.frame("spin", "main")
	p.sample(0, 60, burn, work, main)
	p.sample(0, 30, burn, other, main)
	p.sample(0, 9, burn, burn, work, main) // recursion
	p.sample(0, 1, burn)
	p.sample(0, 100, work, main)
	s.add(p.Profile, nil)
	text, err := s.examine(s.functions[functionKey{path: "/path/spin", name: "burn", start: 0x1000}].id)
	if err != nil {
		t.Fatal(err)
	}
	const want = `function     burn
object       spin
file         /path/spin
address      0x1000
cpu-clock    50.00 % since 08:00:00: 100 of 200 samples

Callers, in % of its 100 samples since 08:00:00:
 60.00  work  spin
 60.00    main  spin
 30.00  other  libx.so
 30.00    main  spin
  9.00  burn  spin
  9.00    work  spin
  9.00    main  spin
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := s.examine(1 << 40); err == nil {
		t.Error("a function that does not exist was described")
	}
}

// TestCallersBounded adds more callers than there is room for.
func TestCallersBounded(t *testing.T) {
	s := newFunctionSums(true, 1)
	p := newProfile(0)
	leaf := p.frame("spin", "burn")
	for i := range mostCallers {
		p.sample(0, 1, leaf, p.frame("spin", fmt.Sprint("caller", i)))
	}
	s.add(p.Profile, nil)
	s.reading()
	if len(s.callers.sums) != 0 || !s.callers.since.IsZero() {
		t.Errorf("%d callers are kept", len(s.callers.sums))
	}
	p = newProfile(1)
	p.sample(0, 1, p.frame("spin", "burn"), p.frame("spin", "main"))
	s.add(p.Profile, nil)
	if text, err := s.examine(s.functions[functionKey{path: "/path/spin", name: "burn", start: 0x1000}].id); err != nil ||
		!strings.Contains(text, "Callers, in % of its 1 samples since 08:00:02:\n100.00  main") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestFunctionsAnnouncedTwice adds two intervals before the first is read. The second one's announcement must not lead to an empty reading.
func TestFunctionsAnnouncedTwice(t *testing.T) {
	f := &Functions{ready: make(chan struct{}, 1), ended: make(chan struct{}), sums: newFunctionSums(false, 1)}
	for n := range 2 {
		p := newProfile(n)
		p.sample(0, 10, p.frame("spin", "burn"))
		f.add(p.Profile, nil)
	}
	if r, err := f.reading(); err != nil || r == nil || r.Window != 2*window {
		t.Fatalf("%+v, %v", r, err)
	}
	close(f.ended)
	if r, err := f.Next(t.Context()); r != nil || err != io.EOF {
		t.Errorf("%+v, %v, want the end", r, err)
	}
}
