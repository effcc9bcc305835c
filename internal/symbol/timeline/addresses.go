package timeline

import (
	"math/bits"
	"slices"
)

// addresses is a set of some of the addresses that are known from the start. Adding, removing and finding the next one take a step for
// each factor of 64 in their number.
type addresses struct {
	all    []uint64   // sorted
	levels [][]uint64 // a bit for each of all; then a bit for each word of the level before that is not zero
}

// newAddresses makes an empty set of addresses, which it keeps.
func newAddresses(all []uint64) *addresses {
	slices.Sort(all)
	a := &addresses{all: slices.Compact(all)}
	for n := len(a.all); ; {
		n = (n + 63) / 64
		a.levels = append(a.levels, make([]uint64, n))
		if n <= 1 {
			return a
		}
	}
}

// index returns the index of the first of all addresses that is not below one.
func (a *addresses) index(address uint64) int {
	i, _ := slices.BinarySearch(a.all, address)
	return i
}

func (a *addresses) add(i int) {
	for _, level := range a.levels {
		level[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (a *addresses) remove(i int) {
	for _, level := range a.levels {
		level[i/64] &^= 1 << (i % 64)
		if level[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// next returns the index of the first address of the set whose index is not below i; len(all) if there is none.
func (a *addresses) next(i int) int {
	for up := 0; up < len(a.levels); up++ {
		level := a.levels[up]
		if i/64 >= len(level) {
			break
		}
		if rest := level[i/64] >> (i % 64); rest != 0 {
			i += bits.TrailingZeros64(rest)
			for up--; up >= 0; up-- {
				i = i*64 + bits.TrailingZeros64(a.levels[up][i])
			}
			return i
		}
		i = i/64 + 1
	}
	return len(a.all)
}
