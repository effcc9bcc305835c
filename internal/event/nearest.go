package event

import (
	"cmp"
	"slices"
	"strings"
)

// candidate is a valid name, and the part of it that nearest compares.
type candidate struct{ key, name string }

// candidates returns candidates that nearest compares as a whole.
func candidates(names []string) []candidate {
	c := make([]candidate, len(names))
	for i, name := range names {
		c[i] = candidate{name, name}
	}
	return c
}

// Nearest returns at most 3 of names that are similar to wrong, the most similar first. It returns nil if none is.
func Nearest(wrong string, names []string) []string { return nearest(wrong, candidates(names)) }

// nearest returns at most 3 names that are similar to wrong, the most similar first.
func nearest(wrong string, all []candidate) []string {
	const most, longest = 3, 100
	if len(wrong) > longest {
		return nil
	}
	wrong = strings.ToLower(wrong)
	type ranked struct {
		name     string
		distance int
	}
	var near []ranked
	for _, c := range all {
		if d := distance(wrong, strings.ToLower(c.key)); d <= max(1, len(wrong)/3) {
			near = append(near, ranked{c.name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, r := range near {
		if len(names) < most && !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

// distance returns the number of letters to insert, delete, replace or swap with their neighbour to turn a into b.
// It can be too high, but not too low, if letters change after a swap.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
