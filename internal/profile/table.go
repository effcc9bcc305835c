package profile

import "hash/maphash"

// Table stores each distinct value once, under a number. The zero value is always present and has number 0.
type Table[ID ~uint32, T comparable] struct {
	all   []T  // the zero value first
	slots []ID // hash table with linear probing; its size is a power of two; 0 is free
	seed  maphash.Seed
}

// ID returns the number of a value. It stores the value if it is new.
func (t *Table[ID, T]) ID(v T) ID {
	var none T
	if v == none {
		return 0
	}
	if 4*len(t.all) >= 3*len(t.slots) {
		t.grow()
	}
	i := t.slot(v)
	if t.slots[i] == 0 {
		t.slots[i] = ID(len(t.all))
		t.all = append(t.all, v)
	}
	return t.slots[i]
}

// slot returns the slot that holds the number of v, or the free slot for it.
func (t *Table[ID, T]) slot(v T) uint64 {
	mask := uint64(len(t.slots) - 1)
	i := maphash.Comparable(t.seed, v) & mask
	for t.slots[i] != 0 && t.all[t.slots[i]] != v {
		i = (i + 1) & mask
	}
	return i
}

func (t *Table[ID, T]) grow() {
	if t.all == nil {
		t.all, t.seed = make([]T, 1), maphash.MakeSeed()
	}
	t.slots = slotsOf[ID](max(16, 2*len(t.slots)))
	t.all = withRoom(t.all, len(t.slots))
	for id := 1; id < len(t.all); id++ {
		t.slots[t.slot(t.all[id])] = ID(id)
	}
}

// At returns the value with a number that ID returned.
func (t *Table[ID, T]) At(id ID) T {
	if id == 0 {
		var none T
		return none
	}
	return t.all[id]
}

// All returns the values by their number, the zero value first. The slice belongs to the table.
func (t *Table[ID, T]) All() []T {
	if t.all == nil {
		return make([]T, 1)
	}
	return t.all
}

// withRoom copies all into a slice with the capacity that a hash table with this number of slots needs until it grows. append alone would
// copy everything several times until then.
func withRoom[T any](all []T, slots int) []T {
	return append(make([]T, 0, slots/4*3+1), all...)
}

// slotsOf returns free slots of a hash table. It writes them: the kernel would map its page of zeros where they are read first, map another
// page when they are written, and interrupt the other CPUs for that.
func slotsOf[ID ~uint32](n int) []ID {
	slots := make([]ID, n)
	clear(slots)
	return slots
}
