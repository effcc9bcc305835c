package perfdata

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrderer checks that the orderer emits records as they were added, from whichever chunk, and does not keep chunks.
func TestOrderer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var added, got []item
	o := &orderer{emit: func(i item, _ bool) { got = append(got, i) }}
	var current *chunk
	for range 10_000 {
		switch random.IntN(20) {
		case 0:
			o.round()
		case 1, 2:
			current = nil
		}
		if current == nil {
			current = &chunk{}
		}
		i := item{random.Uint64N(1000), current, random.Uint32N(chunkSize - recordHeaderSize + 1), random.Uint32N(1 << 16)}
		added = append(added, i)
		o.add(i)
	}
	o.end()
	if len(o.chunks) > 0 || o.bytes != 0 {
		t.Errorf("%d chunks and %d bytes are left", len(o.chunks), o.bytes)
	}
	order := func(a, b item) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.at, b.at), cmp.Compare(a.size, b.size))
	}
	slices.SortFunc(added, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, added) {
		t.Error("the emitted records are not the added ones")
	}
}
