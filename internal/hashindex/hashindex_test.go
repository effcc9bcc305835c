package hashindex

import "testing"

// TestIndex adds values, some with equal hashes, and finds each of them again, and no others.
func TestIndex(t *testing.T) {
	for name, hash := range map[string]func(v int) uint64{
		"spread":   func(v int) uint64 { return uint64(v) * 0x9e3779b97f4a7c15 },
		"few":      func(v int) uint64 { return uint64(v % 3) },
		"low bits": func(v int) uint64 { return uint64(v) << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			var x Index
			var all []int
			find := func(v int) (position int, at Search) {
				for at = x.Search(hash(v)); x[at.At] != 0; at.Next() {
					if slot := x[at.At]; at.Matches(slot) && all[at.Position(slot)-1] == v {
						return at.Position(slot), at
					}
				}
				return 0, at
			}
			for v := range 1000 {
				if x.IsFull(len(all)) {
					x = x.Grown(16, len(all), func(position int) uint64 { return hash(all[position-1]) })
					all = WithRoom(all, x)
				}
				position, at := find(v)
				if position != 0 {
					t.Fatalf("%d is at %d before it was added", v, position)
				}
				all = append(all, v)
				x[at.At] = at.Slot(len(all))
			}
			for v := range 1000 {
				if position, _ := find(v); position != v+1 {
					t.Fatalf("%d is at %d", v, position)
				}
			}
		})
	}
}
