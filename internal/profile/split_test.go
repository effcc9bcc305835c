package profile

import "testing"

// TestSplit splits a profile by cgroup. Every sample is in exactly one part, and the sums are those of the part.
func TestSplit(t *testing.T) {
	p := New(Cgroup)
	p.Events = []Event{{Name: "cycles", Frequency: 19}, {Name: "faults", Period: 1}}
	p.Losses.Samples = 7
	empty := p.Bytes()
	for i := range 100 {
		name := []string{"", "/a", "/b"}[i%3]
		frame := p.Frame(Frame{Address: uint64(i) + 1, IP: uint64(i) + 1})
		p.Add(Sample{Event: uint32(i % 2), Labels: p.Label(Labels{CPU: -1, Cgroup: p.Strings.ID(name)}), Leaf: frame, Stack: p.Stacks.Push(0, frame),
			Count: 2, Value: uint64(i)})
	}
	parts := Split(p, func(s *Sample) string { return p.Strings.At(p.Labels()[s.Labels].Cgroup) })
	if len(parts) != 3 {
		t.Fatalf("%d parts, want 3", len(parts))
	}
	var samples, value uint64
	for name, part := range parts {
		var count uint64
		for _, s := range part.Samples() {
			if got := part.Strings.At(part.Labels()[s.Labels].Cgroup); got != name {
				t.Errorf("the part of %q has a sample of %q", name, got)
			}
			count += s.Count
		}
		if sum := part.Events[0].Samples + part.Events[1].Samples; sum != count || part.Losses.Samples != 0 || part.Events[0].Frequency != 19 {
			t.Errorf("the part of %q: %+v, %+v; its samples are %d", name, part.Events, part.Losses, count)
		}
		samples += count
		value += part.Events[0].Value + part.Events[1].Value
	}
	if samples != 200 || value != p.Events[0].Value+p.Events[1].Value || p.Losses.Samples != 7 {
		t.Errorf("all parts have %d samples of value %d; the profile: %+v", samples, value, p.Events)
	}
	if p.Bytes() < empty+100*uint64(64) {
		t.Errorf("100 samples, frames and stacks take %d bytes", p.Bytes()-empty)
	}
}

// TestRemoveEvents removes an event without samples; the samples of the event after it stay with their event.
func TestRemoveEvents(t *testing.T) {
	p := New(0)
	p.Events = []Event{{Name: "cycles"}, {Name: "dummy", Leader: 1}, {Name: "dummy", Leader: 2}, {Name: "faults", Leader: 3}}
	for _, e := range []uint32{0, 2, 3} {
		p.Add(Sample{Event: e, Count: 1, Value: uint64(e)})
	}
	p.RemoveEvents(func(e *Event) bool { return e.Name != "faults" })
	if len(p.Events) != 3 || p.Events[2].Name != "faults" || p.Events[2].Leader != 2 || p.Events[2].Value != 3 {
		t.Errorf("%+v", p.Events)
	}
	p.Add(Sample{Event: 2, Count: 1, Value: 3})
	if s := p.Samples(); len(s) != 3 || s[1].Event != 1 || s[2].Event != 2 || s[2].Count != 2 {
		t.Errorf("%+v", s)
	}
}
