package profile

import "testing"

// timed returns a profile with a limit, to which n samples of some stacks were added, a microsecond apart.
func timed(limit, n, stacks int) *Profile {
	p := New(Time | TID)
	p.Events = []Event{{Name: "e"}}
	p.SetLimit(limit)
	name := p.Strings.ID("f")
	for i := range n {
		f := p.Frame(Frame{Function: p.Functions.ID(Function{Name: name, Start: uint64(i % stacks)})})
		p.Add(Sample{Labels: p.Label(Labels{TID: int32(i % 2)}), Leaf: f, Time: int64(i) * 1000, Count: 1, Value: 2})
	}
	return p
}

// TestLimit checks that a profile above its limit rounds times, and then drops samples, which it counts.
func TestLimit(t *testing.T) {
	for _, test := range []struct {
		limit, n, stacks int
		step             int64
		cut              bool
	}{
		{0, 5000, 10, 0, false},
		{5000, 5000, 10, 0, false},
		{100, 5000, 10, firstStep, false},
		{12, 5000, 10, firstStep, false},
		{100, 5000, 1000, lastStep, true},
	} {
		p := timed(test.limit, test.n, test.stacks)
		var samples, value uint64
		for _, s := range p.Samples() {
			samples, value = samples+s.Count, value+s.Value
			if p.Step() > 0 && s.Time%p.Step() != 0 {
				t.Errorf("%+v: time %d in steps of %d", test, s.Time, p.Step())
			}
		}
		e := p.Events[0]
		if samples != e.Samples || value != e.Value || e.Samples+p.Cut() != uint64(test.n) || (p.Cut() > 0) != test.cut {
			t.Errorf("%+v: %d samples of %d, value %d of %d, %d are cut", test, samples, e.Samples, value, e.Value, p.Cut())
		}
		if test.limit > 0 && len(p.Samples()) > test.limit+1 || p.Step() < test.step || test.step == 0 && p.Step() != 0 {
			t.Errorf("%+v: %d kept, steps of %d", test, len(p.Samples()), p.Step())
		}
	}
	whole := New(Time | TID)
	whole.SetLimit(100)
	whole.Events = []Event{{Name: "e"}}
	one := timed(0, 60, 1)
	whole.frames, whole.labels, whole.Strings, whole.Functions = one.frames, one.labels, one.Strings, one.Functions
	other := timed(0, 60, 1)
	for i := range other.samples.all {
		other.samples.all[i].Time += 100
	}
	whole.Take(one)
	whole.Take(other)
	if e := whole.Events[0]; len(whole.Samples()) > 100 || e.Samples != 120 || whole.Step() == 0 || whole.Cut() != 0 {
		t.Errorf("taken: %d samples as %d, steps of %d", e.Samples, len(whole.Samples()), whole.Step())
	}
}

// TestSelect checks the sums and keys of a part of a profile.
func TestSelect(t *testing.T) {
	p := timed(0, 100, 5)
	part := p.Select(TID, func(s *Sample) bool { return s.Time >= 50_000 && p.Labels()[s.Labels].TID == 1 })
	if e := part.Events[0]; e.Samples != 25 || e.Value != 50 || len(part.Samples()) != 5 || part.Keys() != TID {
		t.Errorf("%d samples of value %d as %d, keys %b", e.Samples, e.Value, len(part.Samples()), part.Keys())
	}
	for _, s := range part.Samples() {
		if part.Labels()[s.Labels].TID != 1 || s.Time != 0 {
			t.Errorf("sample %+v", s)
		}
	}
	if none := p.Select(0, func(s *Sample) bool { return true }); len(none.Samples()) != 5 || none.Labels()[none.Samples()[0].Labels].TID != 0 {
		t.Errorf("without keys: %d samples", len(none.Samples()))
	}
	if e := p.Events[0]; e.Samples != 100 || len(p.Samples()) != 100 {
		t.Error("the whole has changed")
	}
}
