package profile

import "iter"

// StackID is the number of a stack. The empty stack has number 0.
type StackID uint32

// Stack is a frame and the stack of its caller.
type Stack struct {
	Caller StackID
	Frame  FrameID
}

// Stacks are the nodes of a trie whose root is the outermost caller. Stacks share the nodes of their common callers.
type Stacks struct {
	all   []Stack   // the empty one first
	slots []StackID // hash table with linear probing; its size is a power of two; 0 is free
}

// Push returns the stack in which caller called frame. It adds the stack if it is new.
func (s *Stacks) Push(caller StackID, frame FrameID) StackID {
	if 4*len(s.all) >= 3*len(s.slots) {
		s.grow()
	}
	stack := Stack{caller, frame}
	if next := int(caller) + 1; next < len(s.all) && s.all[next] == stack { // added right after its caller, and in the cache line of that
		return StackID(next)
	}
	mask := uint64(len(s.slots) - 1)
	for i := stack.hash() & mask; ; i = (i + 1) & mask {
		id := s.slots[i]
		if id == 0 {
			id = StackID(len(s.all))
			s.all, s.slots[i] = append(s.all, stack), id
			return id
		}
		if s.all[id] == stack {
			return id
		}
	}
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

func (s *Stacks) grow() {
	if s.all == nil {
		s.all = make([]Stack, 1)
	}
	s.slots = slotsOf[StackID](max(128, 2*len(s.slots)))
	s.all = withRoom(s.all, len(s.slots))
	mask := uint64(len(s.slots) - 1)
	for id, stack := range s.all[1:] {
		i := stack.hash() & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = StackID(id + 1)
	}
}

func (s Stack) hash() uint64 { return mix(uint64(s.Caller)<<32 | uint64(s.Frame)) }

// mix spreads the bits of a number: the finalizer of SplitMix64, which is in the public domain.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
