package profile

// Table stores each value once, under a number. Number 0 is the zero value, which is always there.
type Table[ID ~uint32, T comparable] struct {
	ids map[T]ID
	all []T
}

// ID returns the number of a value, which it stores if it is new.
func (t *Table[ID, T]) ID(v T) ID {
	var none T
	if v == none {
		return 0
	}
	if id, ok := t.ids[v]; ok {
		return id
	}
	if t.ids == nil {
		t.ids, t.all = map[T]ID{}, []T{none}
	}
	id := ID(len(t.all))
	t.ids[v], t.all = id, append(t.all, v)
	return id
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
