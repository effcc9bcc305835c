package profile

import (
	"hash/maphash"

	"github.com/bperf/bperf/internal/hashindex"
)

// Table stores each distinct value once, under a number. The zero value is always present and has number 0.
type Table[ID ~uint32, T comparable] struct {
	all   []T             // the zero value first
	index hashindex.Index // of all
	seed  maphash.Seed
}

// ID returns the number of a value. It stores the value if it is new.
func (t *Table[ID, T]) ID(v T) ID {
	var none T
	if v == none {
		return 0
	}
	if t.index.IsFull(len(t.all)) {
		t.grow()
	}
	for at := t.index.Search(maphash.Comparable(t.seed, v)); ; at.Next() {
		slot := t.index[at.At]
		if slot == 0 {
			t.index[at.At] = at.Slot(len(t.all))
			t.all = append(t.all, v)
			return ID(len(t.all) - 1)
		}
		if at.Matches(slot) {
			if id := at.Position(slot); t.all[id] == v {
				return ID(id)
			}
		}
	}
}

func (t *Table[ID, T]) grow() {
	if t.all == nil {
		t.all, t.seed = make([]T, 1), maphash.MakeSeed()
	}
	t.index = t.index.Grown(16, len(t.all)-1, func(id int) uint64 { return maphash.Comparable(t.seed, t.all[id]) })
	t.all = hashindex.WithRoom(t.all, t.index)
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
