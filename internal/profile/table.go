package profile

import "hash/maphash"

// Table stores each value once, under a number. Number 0 is the zero value, which is always there.
type Table[ID ~uint32, T comparable] struct {
	all   []T  // the zero value first
	slots []ID // a hash table with linear probing, of a power of two; 0 is free
	seed  maphash.Seed
}

// ID returns the number of a value, which it stores if it is new.
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

// slot is where the number of a value is, or where there is room for it.
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
	t.slots = make([]ID, max(16, 2*len(t.slots)))
	t.all = withRoom(t.all, len(t.slots))
	for id := 1; id < len(t.all); id++ {
		t.slots[t.slot(t.all[id])] = ID(id)
	}
}

// At returns the value of a number that ID returned.
func (t *Table[ID, T]) At(id ID) T {
	if id == 0 {
		var none T
		return none
	}
	return t.all[id]
}

// All returns the values by their number, the zero value first. The slice is the table's own.
func (t *Table[ID, T]) All() []T {
	if t.all == nil {
		return make([]T, 1)
	}
	return t.all
}

// withRoom makes room for what a hash table with so many slots gets until it grows: append alone would copy everything several times meanwhile.
func withRoom[T any](all []T, slots int) []T {
	return append(make([]T, 0, slots/4*3+1), all...)
}
