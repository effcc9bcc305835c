package profile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recording is an invented series of samples, in words.
type recording []struct {
	event        uint32
	comm         string
	cpu          int32
	state        string
	stack        []string // the innermost function first
	time         int64
	count, value uint64
}

func (r recording) addTo(p *Profile) {
	for _, s := range r {
		var frames []FrameID
		for i, name := range s.stack {
			module := p.Modules.ID(Module{Name: p.Strings.ID("module of " + name)})
			function := p.Functions.ID(Function{Name: p.Strings.ID(name), Module: module, Start: 0x100})
			frames = append(frames, p.Frame(Frame{Function: function, Module: module, Address: 0x100 + uint64(i), IP: 0x7f100, Line: 7, Kind: User}))
		}
		labels := Labels{Comm: p.Strings.ID(s.comm), CPU: s.cpu}
		if s.state != "" {
			labels.Tags = p.Tags.ID(Tag{Key: p.Strings.ID("state"), Value: p.Strings.ID(s.state)})
			labels.Tags = p.Tags.ID(Tag{Key: p.Strings.ID("reason"), Value: p.Strings.ID("why"), Next: labels.Tags})
		}
		p.Add(Sample{Event: s.event, Labels: p.Label(labels), Leaf: frames[0], Stack: p.Stacks.ID(frames),
			Time: s.time, Thread: int32(s.time / 10), Count: s.count, Value: s.value})
	}
}

// describe returns each sample in words.
func describe(p *Profile) []string {
	var all []string
	for _, s := range p.Samples() {
		labels := p.Labels()[s.Labels]
		line := fmt.Sprintf("%s %s cpu=%d t=%d", p.Events[s.Event].Name, p.Strings.At(labels.Comm), labels.CPU, s.Time)
		for tags := labels.Tags; tags != 0; tags = p.Tags.At(tags).Next {
			tag := p.Tags.At(tags)
			line += fmt.Sprintf(" %s=%s", p.Strings.At(tag.Key), p.Strings.At(tag.Value))
		}
		for id := range p.Stacks.Frames(s.Stack) {
			f := p.Frames()[id]
			function := p.Functions.At(f.Function)
			line += fmt.Sprintf(" %s(%s)+%#x,%#x,%d", p.Strings.At(function.Name), p.Strings.At(p.Modules.At(f.Module).Name), f.Address, f.IP, f.Line)
		}
		all = append(all, fmt.Sprintf("%s: %d %d", line, s.Count, s.Value))
	}
	return all
}

var twoEvents = []Event{{Name: "cycles"}, {Name: "faults", Leader: 1}}

var made = recording{
	{0, "cat", 1, "", []string{"read", "main"}, 10, 1, 100},
	{0, "cat", 2, "", []string{"read", "main"}, 20, 1, 50},
	{1, "cat", 1, "", []string{"read", "main"}, 30, 1, 1},
	{0, "cat", 1, "S", []string{"main"}, 40, 2, 7},
	{0, "dog", 1, "", []string{"read", "main"}, 50, 1, 9},
}

func TestKeys(t *testing.T) {
	const read, main = " read(module of read)+0x0,0x0,0", " main(module of main)+0x0,0x0,0"
	tests := []struct {
		name string
		keep Keys
		want []string
	}{
		{"none", 0, []string{
			"cycles  cpu=0 t=0" + read + main + ": 3 159",
			"faults  cpu=0 t=0" + read + main + ": 1 1",
			"cycles  cpu=0 t=0" + main + ": 2 7",
		}},
		{"comm", Comm, []string{
			"cycles cat cpu=0 t=0" + read + main + ": 2 150",
			"faults cat cpu=0 t=0" + read + main + ": 1 1",
			"cycles cat cpu=0 t=0" + main + ": 2 7",
			"cycles dog cpu=0 t=0" + read + main + ": 1 9",
		}},
		{"all", ^Keys(0), []string{
			"cycles cat cpu=1 t=10 read(module of read)+0x100,0x7f100,7 main(module of main)+0x101,0x7f100,7: 1 100",
			"cycles cat cpu=2 t=20 read(module of read)+0x100,0x7f100,7 main(module of main)+0x101,0x7f100,7: 1 50",
			"faults cat cpu=1 t=30 read(module of read)+0x100,0x7f100,7 main(module of main)+0x101,0x7f100,7: 1 1",
			"cycles cat cpu=1 t=40 reason=why state=S main(module of main)+0x100,0x7f100,7: 2 7",
			"cycles dog cpu=1 t=50 read(module of read)+0x100,0x7f100,7 main(module of main)+0x101,0x7f100,7: 1 9",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(tt.keep)
			p.Events = slices.Clone(twoEvents)
			made.addTo(p)
			if diff := cmp.Diff(tt.want, describe(p)); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
			if p.Events[0].Samples != 5 || p.Events[0].Value != 166 || p.Events[1].Samples != 1 {
				t.Errorf("sums of the events: %+v", p.Events)
			}
		})
	}
}

// TestFirst adds equal samples in different orders: the first is always the earliest one.
func TestFirst(t *testing.T) {
	for _, order := range [][]int64{{10, 20, 30}, {30, 20, 10}, {20, 10, 30}} {
		p := New(0)
		p.Events = []Event{{Name: "cycles"}}
		for _, time := range order {
			p.Add(Sample{Time: time, Thread: int32(time), Count: 1})
		}
		if got := p.Samples(); len(got) != 1 || got[0].Thread != 10 || got[0].First != 10 || got[0].Time != 0 || got[0].Count != 3 {
			t.Errorf("added in the order %v: %+v", order, got)
		}
	}
}

// TestFrameWithoutFunction checks that a frame without a function keeps its address, even if Address is no key of the profile.
func TestFrameWithoutFunction(t *testing.T) {
	p := New(0)
	id := p.Frame(Frame{Address: 0x10, IP: 0x20, Line: 3})
	if got := p.Frames()[id]; got != (Frame{Address: 0x10, IP: 0x20}) {
		t.Errorf("frame: %+v", got)
	}
}

// TestStacks compares the trie with a map of what was pushed.
func TestStacks(t *testing.T) {
	var stacks Stacks
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[StackID][]FrameID{}
	known := map[string]StackID{}
	some := func() []FrameID {
		frames := make([]FrameID, random.IntN(6))
		for i := range frames {
			frames[i] = FrameID(1 + random.IntN(5))
		}
		return frames
	}
	for i := range 20_000 {
		if i == 500 || i == 1000 {
			var other Stacks
			for range 1000 {
				other.ID(some())
			}
			for old, id := range stacks.take(&other) {
				want := slices.Collect(other.Frames(StackID(old)))
				if got := slices.Collect(stacks.Frames(id)); !slices.Equal(got, want) {
					t.Fatalf("stack %d that was taken is %v, want %v", id, got, want)
				}
				known[fmt.Sprint(want)], seen[id] = id, want
			}
		}
		frames := some()
		id, key := stacks.ID(frames), fmt.Sprint(frames)
		if before, ok := known[key]; ok && before != id {
			t.Fatalf("%v is stack %d, and was %d before", frames, id, before)
		}
		known[key], seen[id] = id, frames
	}
	if len(known) != len(seen) {
		t.Errorf("%d different stacks have %d numbers", len(known), len(seen))
	}
	for id, want := range seen {
		if got := slices.Collect(stacks.Frames(id)); !slices.Equal(got, want) {
			t.Errorf("stack %d is %v, want %v", id, got, want)
		}
	}
	for id, s := range stacks.All()[1:] {
		if int(s.Caller) > id {
			t.Errorf("stack %d comes before its caller %d", id+1, s.Caller)
		}
	}
}

func TestEmpty(t *testing.T) {
	p := New(0)
	if p.Strings.At(0) != "" || p.Stacks.At(0) != (Stack{}) || len(p.Frames()) != 1 || len(p.Labels()) != 1 || len(p.Stacks.All()) != 1 {
		t.Error("number 0 is not the zero value in an empty profile")
	}
	if p.Strings.ID("") != 0 || p.Strings.ID("x") != 1 || p.Strings.At(1) != "x" {
		t.Error("numbers do not start with 0 for the zero value")
	}
}

// BenchmarkAdd adds samples with callchains of 30 frames, 5,000 different ones.
func BenchmarkAdd(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	chains := make([][]FrameID, 5000)
	for i := range chains {
		chains[i] = make([]FrameID, 30)
		for depth := range chains[i] {
			chains[i][depth] = FrameID(1 + depth*8 + random.IntN(1+(29-depth)/4))
		}
	}
	p := New(Comm)
	p.Events = []Event{{Name: "cycles"}}
	b.ReportAllocs()
	for i := range b.N {
		chain := chains[i%len(chains)]
		p.Add(Sample{Leaf: chain[0], Stack: p.Stacks.ID(chain), Count: 1, Value: 1000})
	}
}

// TestTake merges what two goroutines added: each has samples that the other has too, and one of its own.
func TestTake(t *testing.T) {
	const untimed = ^Time // with their own times, equal samples are several
	p, whole := New(untimed), New(untimed)
	for _, p := range []*Profile{p, whole} {
		p.Events = slices.Clone(twoEvents)
		made.addTo(p)
	}
	made.addTo(whole)
	p.Events, p.Stacks, p.samples = slices.Clone(twoEvents), Stacks{}, samples{} // frames and labels are left
	last := len(made) - 1
	for _, without := range []int{0, last} {
		part := New(untimed)
		part.Events = slices.Clone(twoEvents)
		for i, s := range whole.Samples() {
			if i == without {
				continue
			}
			if i == last-without {
				s.Count, s.Value = 2*s.Count, 2*s.Value
			}
			s.Stack, s.Count, s.Value = part.Stacks.ID(slices.Collect(whole.Stacks.Frames(s.Stack))), s.Count/2, s.Value/2
			part.Add(s)
		}
		p.Take(part)
	}
	got, want := describe(p), describe(whole)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(whole.Events, p.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAddAfterTake adds samples like those that Take added without looking for equal ones.
func TestAddAfterTake(t *testing.T) {
	var parts []*Profile
	for range 3 {
		p := New(^Time)
		p.Events = slices.Clone(twoEvents)
		parts = append(parts, p)
	}
	add := func(to *Profile, frame FrameID) { to.Add(Sample{Stack: to.Stacks.ID([]FrameID{frame}), Count: 1}) }
	p := parts[0]
	for i, part := range parts {
		add(part, FrameID(1+i))
		if i > 0 {
			p.Take(part)
		}
	}
	for i := range parts {
		add(p, FrameID(1+i))
	}
	if len(p.Samples()) != len(parts) {
		t.Errorf("%d samples, want %d", len(p.Samples()), len(parts))
	}
	for _, s := range p.Samples() {
		if s.Count != 2 {
			t.Errorf("the count of stack %d is %d, want 2", s.Stack, s.Count)
		}
	}
}

// TestCutCallees cuts at the outermost match, and joins the samples that are equal from then on.
func TestCutCallees(t *testing.T) {
	p := New(Comm)
	p.Events = []Event{{Name: "cycles"}}
	recording{
		{comm: "a", stack: []string{"leaf", "work", "main"}, count: 1, value: 10},
		{comm: "a", stack: []string{"work", "other", "work", "main"}, count: 2, value: 20},
		{comm: "a", stack: []string{"leaf", "main"}, count: 1, value: 5},
		{comm: "b", stack: []string{"work"}, count: 1, value: 3},
		{comm: "b", stack: []string{"leaf"}, count: 1, value: 1},
	}.addTo(p)
	p.CutCallees(func(f FunctionID) bool { return p.Strings.At(p.Functions.At(f).Name) == "work" })
	var got []string
	for _, s := range p.Samples() {
		line := p.Strings.At(p.Labels()[s.Labels].Comm) + " " + p.Strings.At(p.Functions.At(p.Frames()[s.Leaf].Function).Name) + ":"
		for id := range p.Stacks.Frames(s.Stack) {
			line += " " + p.Strings.At(p.Functions.At(p.Frames()[id].Function).Name)
		}
		got = append(got, fmt.Sprintf("%s %d %d", line, s.Count, s.Value))
	}
	want := []string{"a work: work main 3 30", "a leaf: leaf main 1 5", "b work: work 1 3", "b leaf: leaf 1 1"}
	if diff := cmp.Diff(want, got); diff != "" || p.Events[0].Value != 39 {
		t.Errorf("%d in all (-want +got):\n%s", p.Events[0].Value, diff)
	}
}
