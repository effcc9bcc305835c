package profile

import (
	"iter"
	"slices"

	"github.com/bperf/bperf/internal/hashindex"
)

// StackID is the number of a stack. The empty stack has number 0.
type StackID uint32

// Stack is a frame and the stack of its caller.
type Stack struct {
	Caller StackID
	Frame  FrameID
}

// Stacks are the nodes of a trie whose root is the outermost caller. Stacks share the nodes of their common callers.
type Stacks struct {
	all   []Stack         // the empty one first
	index hashindex.Index // of all but the last ones
	late  int             // number of the last stacks, which the index does not have yet
}

// Push returns the stack in which caller called frame. It adds the stack if it is new.
func (s *Stacks) Push(caller StackID, frame FrameID) StackID {
	if s.late > 0 || s.index.IsFull(len(s.all)) {
		s.grow()
	}
	stack := Stack{caller, frame}
	if next := int(caller) + 1; next < len(s.all) && s.all[next] == stack { // added right after its caller, and in the cache line of that
		return StackID(next)
	}
	for at := s.index.Search(stack.hash()); ; at.Next() {
		slot := s.index[at.At]
		if slot == 0 {
			s.index[at.At] = at.Slot(len(s.all))
			s.all = append(s.all, stack)
			return StackID(len(s.all) - 1)
		}
		if at.Matches(slot) {
			if id := at.Position(slot); s.all[id] == stack {
				return StackID(id)
			}
		}
	}
}

// take adds the stacks of o and returns their new numbers by the old ones.
func (s *Stacks) take(o *Stacks) []StackID {
	const unknown = ^StackID(0)
	ids := make([]StackID, len(o.All()))
	before, added := StackID(len(s.All())), 0
	for i, stack := range o.All()[1:] {
		ids[i+1] = unknown
		added++
		if caller := ids[stack.Caller]; caller < before { // its number is known: callers come before their callees
			ids[i+1] = s.Push(caller, stack.Frame)
			added--
		}
	}
	s.all = slices.Grow(s.all, added)
	// The callers of the others are new, and so are they: nothing is compared, and the index does not grow for them.
	for i, stack := range o.All()[1:] {
		if ids[i+1] == unknown {
			ids[i+1] = StackID(len(s.all))
			s.all = append(s.all, Stack{ids[stack.Caller], stack.Frame})
		}
	}
	s.late += added
	return ids
}

// ID returns the stack with these frames, innermost first. It adds the stack if it is new.
func (s *Stacks) ID(frames []FrameID) StackID {
	var stack StackID
	for i := len(frames) - 1; i >= 0; i-- {
		stack = s.Push(stack, frames[i])
	}
	return stack
}

// At returns the innermost frame of a stack and the stack of its caller.
func (s *Stacks) At(id StackID) Stack {
	if id == 0 {
		return Stack{}
	}
	return s.all[id]
}

// Frames returns the frames of a stack, innermost first.
func (s *Stacks) Frames(id StackID) iter.Seq[FrameID] {
	return func(yield func(FrameID) bool) {
		for id != 0 && yield(s.all[id].Frame) {
			id = s.all[id].Caller
		}
	}
}

// All returns the stacks by their number, the empty one first. Callers come before their callees. The slice belongs to Stacks.
func (s *Stacks) All() []Stack {
	if s.all == nil {
		return make([]Stack, 1)
	}
	return s.all
}

// grow makes the index complete and larger if needed.
func (s *Stacks) grow() {
	if s.all == nil {
		s.all = make([]Stack, 1)
	}
	last, hash := len(s.all)-1, func(id int) uint64 { return s.all[id].hash() }
	if s.index.IsFull(len(s.all)) {
		s.index = s.index.Grown(128, last, hash)
		s.all = hashindex.WithRoom(s.all, s.index)
	} else {
		s.index.Add(last+1-s.late, last, hash)
	}
	s.late = 0
}

func (s Stack) hash() uint64 { return mix(uint64(s.Caller)<<32 | uint64(s.Frame)) }

// mix spreads the bits of a number: the finalizer of SplitMix64, which is in the public domain.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
