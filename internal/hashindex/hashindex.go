// Package hashindex finds values in lists by their hashes.
package hashindex

// Index is a hash table with linear probing. It finds the position of a value in a list that has each value once, from position 1 on. Its
// size is a power of two. A slot that is 0 is free. The others have a position in the low bits and, in the bits that no position needs, a
// part of the value's hash: values that differ are seldom compared, and each of them would be a cache miss.
type Index []uint32

// IsFull reports whether the index must grow before it gets one more value. n is the number of its values.
func (x Index) IsFull(n int) bool { return 4*n >= 3*len(x) }

// Grown returns an index of twice the size, at least of min, or larger if it would be full. It has the positions from 1 to n.
func (x Index) Grown(min, n int, hash func(position int) uint64) Index {
	size := max(min, 2*len(x))
	for 4*n >= 3*size {
		size *= 2
	}
	larger := make(Index, size)
	// The kernel would map its page of zeros where the slots are read first, map another page when they are written, and interrupt the other
	// CPUs for that.
	clear(larger)
	larger.Add(1, n, hash)
	return larger
}

// Add adds the positions from first to last, whose values the index does not have.
func (x Index) Add(first, last int, hash func(position int) uint64) {
	for position := first; position <= last; position++ {
		at := x.Free(hash(position))
		x[at.At] = at.Slot(position)
	}
}

// Free returns the search that ends at the free slot for a value with this hash.
func (x Index) Free(hash uint64) Search {
	s := x.Search(hash)
	for x[s.At] != 0 {
		s.Next()
	}
	return s
}

// Search begins a search for a value with this hash.
func (x Index) Search(hash uint64) Search {
	mask := uint32(len(x) - 1)
	return Search{uint32(hash) & mask, uint32(hash>>32) &^ mask, mask}
}

// Search is a search in an index.
type Search struct {
	At        uint32 // index of the slot
	tag, mask uint32
}

// Next moves on to the next slot.
func (s *Search) Next() { s.At = (s.At + 1) & s.mask }

// Slot returns what a slot has for a position of the value that is searched.
func (s *Search) Slot(position int) uint32 { return s.tag | uint32(position) }

// Matches reports whether a slot can be that of the value.
func (s *Search) Matches(slot uint32) bool { return slot&^s.mask == s.tag }

// Position returns the position in a slot.
func (s *Search) Position(slot uint32) int { return int(slot & s.mask) }

// WithRoom copies all into a slice with room for what its index finds until that grows. append alone would copy everything several times
// until then.
func WithRoom[T any](all []T, x Index) []T { return append(make([]T, 0, len(x)/4*3+1), all...) }
