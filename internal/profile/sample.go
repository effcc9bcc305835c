package profile

import (
	"iter"
	"slices"

	"github.com/bperf/bperf/internal/hashindex"
)

// Sample is one sample, or several samples that differ only in Count, Value, Thread and First.
type Sample struct {
	Event   uint32 // index in Profile.Events
	Labels  LabelsID
	Leaf    FrameID // the frame of the instruction pointer; usually the innermost frame of the stack
	Stack   StackID // 0 without a callchain
	Source  FrameID // for branches, the origin of the branch to Leaf; 0 for other samples
	Details DetailsID
	Time    int64 // nanoseconds of the recording's clock; 0 if Time is no key of the profile

	// Thread and First belong to the earliest of the samples. They do not distinguish samples. Reports need them to put equal rows into
	// perf's order.
	Thread int32
	First  int64 // time in nanoseconds; Add copies it from Time

	Count uint64 // number of samples
	Value uint64 // sum of their periods or weights, in the event's unit
}

// StackOf returns the frames of a sample, innermost first.
func (p *Profile) StackOf(s *Sample) []FrameID {
	if s.Stack == 0 && s.Leaf != 0 {
		return []FrameID{s.Leaf}
	}
	return slices.Collect(p.Stacks.Frames(s.Stack))
}

// Instructions returns the frames of a sample by instruction, innermost first: the functions inlined there and, last, the frame that contains
// them.
func (p *Profile) Instructions(s *Sample) iter.Seq[[]FrameID] {
	return func(yield func([]FrameID) bool) {
		frames := p.StackOf(s)
		var first int // frame of the instruction
		for i, f := range frames {
			if p.Frames()[f].Inlined && i+1 < len(frames) {
				continue
			}
			if !yield(frames[first : i+1]) {
				return
			}
			first = i + 1
		}
	}
}

// samples stores equal samples once, with the sums of Count and Value, unless append added them.
type samples struct {
	all   []Sample
	index hashindex.Index // of all but the last ones; the first element has position 1
	late  int             // number of the last samples, which the index does not have yet
}

// append adds samples as they are.
func (s *samples) append(more ...Sample) {
	s.all = append(s.all, more...)
	s.late += len(more)
}

func (s *samples) add(sample Sample) {
	if s.late > 0 || s.index.IsFull(len(s.all)) {
		s.grow()
	}
	for at := s.index.Search(sample.hash()); ; at.Next() {
		slot := s.index[at.At]
		if slot == 0 {
			s.all = append(s.all, sample)
			s.index[at.At] = at.Slot(len(s.all))
			return
		}
		if !at.Matches(slot) {
			continue
		}
		if known := &s.all[at.Position(slot)-1]; known.like(&sample) {
			known.Count += sample.Count
			known.Value += sample.Value
			if sample.First < known.First {
				known.First, known.Thread = sample.First, sample.Thread
			}
			return
		}
	}
}

// grow makes the index complete and larger if needed.
func (s *samples) grow() {
	last, hash := len(s.all), func(position int) uint64 { return s.all[position-1].hash() }
	if s.index.IsFull(last) {
		s.index = s.index.Grown(128, last, hash)
		s.all = hashindex.WithRoom(s.all, s.index)
	} else {
		s.index.Add(last+1-s.late, last, hash)
	}
	s.late = 0
}

func (s *Sample) like(o *Sample) bool {
	return s.Stack == o.Stack && s.Leaf == o.Leaf && s.Labels == o.Labels && s.Event == o.Event && s.Time == o.Time && s.Source == o.Source &&
		s.Details == o.Details
}

func (s *Sample) hash() uint64 {
	h := mix(uint64(s.Stack)<<32 | uint64(s.Leaf))
	h = mix(h ^ uint64(s.Labels)<<32 ^ uint64(s.Event))
	h = mix(h ^ uint64(s.Time) ^ uint64(s.Source)<<32)
	if s.Details == 0 {
		return h
	}
	return mix(h ^ uint64(s.Details))
}
