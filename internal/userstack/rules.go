package userstack

import "github.com/bperf/bperf/internal/symbol/unwind"

// rules numbers the rules of all tables: rows refer to them by number. A number is used again when no table has its rule any more.
type rules struct {
	limit   int
	numbers map[unwind.Rule]uint32
	all     []unwind.Rule // by number
	tables  []int         // that have the rule, by number; the zero Rule, which is number 0, counts as if one more had it
	free    []uint32      // numbers
}

func newRules(limit uint32) *rules {
	return &rules{limit: int(limit), numbers: map[unwind.Rule]uint32{{}: 0}, all: make([]unwind.Rule, 1), tables: []int{1}}
}

// fit reports whether there is room for the rules of a table.
func (r *rules) fit(table []unwind.Rule) bool {
	left := r.limit - len(r.numbers)
	for _, rule := range table {
		if _, known := r.numbers[rule]; !known {
			left--
		}
	}
	return left >= 0
}

// take numbers the rules of a table, each of which is there once and which must fit, and returns the numbers that are new or have another rule now.
func (r *rules) take(table []unwind.Rule) (numbers, changed []uint32) {
	numbers = make([]uint32, len(table))
	for i, rule := range table {
		number, known := r.numbers[rule]
		if !known {
			number = r.next()
			r.numbers[rule], r.all[number] = number, rule
			changed = append(changed, number)
		}
		r.tables[number]++
		numbers[i] = number
	}
	return numbers, changed
}

// next returns a number that is free.
func (r *rules) next() uint32 {
	if last := len(r.free) - 1; last >= 0 {
		number := r.free[last]
		r.free = r.free[:last]
		return number
	}
	r.all, r.tables = append(r.all, unwind.Rule{}), append(r.tables, 0)
	return uint32(len(r.all) - 1)
}

// give gives the numbers of a table back. No program may read the table any more.
func (r *rules) give(numbers []uint32) {
	for _, number := range numbers {
		if r.tables[number]--; r.tables[number] == 0 {
			delete(r.numbers, r.all[number])
			r.free = append(r.free, number)
		}
	}
}
