package profile

// index is a hash table with linear probing. It finds the position of a value in a list that has each value once, from position 1 on. Its
// size is a power of two. A slot that is 0 is free. The others have a position in the low bits and, in the bits that no position needs, a
// part of the value's hash: values that differ are seldom compared, and each of them would be a cache miss.
type index []uint32

// isFull reports whether the index must grow before it gets one more value. n is the number of its values.
func (x index) isFull(n int) bool { return 4*n >= 3*len(x) }

// grown returns an index of twice the size, at least of min, with the positions from 1 to n.
func (x index) grown(min, n int, hash func(position int) uint64) index {
	larger := make(index, max(min, 2*len(x)))
	// The kernel would map its page of zeros where the slots are read first, map another page when they are written, and interrupt the other
	// CPUs for that.
	clear(larger)
	for position := 1; position <= n; position++ {
		at := larger.free(hash(position))
		larger[at.at] = at.slot(position)
	}
	return larger
}

// free returns the search that ends at the free slot for a value with this hash.
func (x index) free(hash uint64) search {
	s := x.search(hash)
	for x[s.at] != 0 {
		s.next()
	}
	return s
}

// search begins a search for a value with this hash.
func (x index) search(hash uint64) search {
	mask := uint32(len(x) - 1)
	return search{uint32(hash) & mask, uint32(hash>>32) &^ mask, mask}
}

// search is a search in an index.
type search struct{ at, tag, mask uint32 }

// next moves on to the next slot.
func (s *search) next() { s.at = (s.at + 1) & s.mask }

// slot returns what a slot has for a position of the value that is searched.
func (s *search) slot(position int) uint32 { return s.tag | uint32(position) }

// matches reports whether a slot can be that of the value.
func (s *search) matches(slot uint32) bool { return slot&^s.mask == s.tag }

// position returns the position in a slot.
func (s *search) position(slot uint32) uint32 { return slot & s.mask }

// withRoom copies all into a slice with room for what its index finds until that grows. append alone would copy everything several times
// until then.
func withRoom[T any](all []T, x index) []T { return append(make([]T, 0, len(x)/4*3+1), all...) }
