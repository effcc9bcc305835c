package userstack

import "github.com/bperf/bperf/internal/symbol/unwind"

// rules numbers the rules of all tables; rows refer to rules by number. A number is reused when no table has its rule any more.
type rules struct {
	limit   int
	numbers map[unwind.Rule]uint32
	all     []unwind.Rule // by number
	tables  []int         // how many tables have the rule, by number; one more for the zero Rule (number 0), which is always there
	free    []uint32      // free numbers
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

// take returns the numbers of the rules of a table, and those numbers that are new or have a new rule. The rules must be distinct, and must
// fit.
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

// next returns a free number.
func (r *rules) next() uint32 {
	if last := len(r.free) - 1; last >= 0 {
		number := r.free[last]
		r.free = r.free[:last]
		return number
	}
	r.all, r.tables = append(r.all, unwind.Rule{}), append(r.tables, 0)
	return uint32(len(r.all) - 1)
}

// give returns the numbers of a table. No program may still read the table.
func (r *rules) give(numbers []uint32) {
	for _, number := range numbers {
		if r.tables[number]--; r.tables[number] == 0 {
			delete(r.numbers, r.all[number])
			r.free = append(r.free, number)
		}
	}
}
