package replay

import (
	"sync"
	"sync/atomic"
)

// knownBits is the size of what each resolver remembers by itself, as a power of two.
const knownBits = 14

// locations are all those of a replay. Goroutines share it; they have a part each to themselves most of the time.
type locations struct {
	count  atomic.Uint32
	shards [1 << shardBits]shard
}

const shardBits = 5

// shard is a hash table with linear probing, of a power of two.
type shard struct {
	mu    sync.Mutex
	count int
	slots []*Location
	block []Location // for the next ones
}

func hashOf(space int32, addr uint64) uint64 {
	x := addr ^ uint64(uint32(space))<<40
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

// get returns the location of an address, which fill completes if it is new.
func (t *locations) get(hash uint64, space int32, addr uint64, fill func(*Location)) *Location {
	s := &t.shards[hash&(1<<shardBits-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if 4*s.count >= 3*len(s.slots) {
		s.grow()
	}
	i := s.find(hash, space, addr)
	if s.slots[i] != nil {
		return s.slots[i]
	}
	if len(s.block) == 0 {
		s.block = make([]Location, 64)
	}
	l := &s.block[0]
	s.block = s.block[1:]
	l.Index, l.Addr, l.space, l.Source = t.count.Add(1)-1, addr, space, &noSource
	fill(l)
	s.slots[i] = l
	s.count++
	return l
}

// find returns the slot of a location, or that for it.
func (s *shard) find(hash uint64, space int32, addr uint64) uint64 {
	mask := uint64(len(s.slots) - 1)
	i := hash >> shardBits & mask
	for s.slots[i] != nil && (s.slots[i].Addr != addr || s.slots[i].space != space) {
		i = (i + 1) & mask
	}
	return i
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]*Location, max(64, 2*len(old)))
	for _, l := range old {
		if l != nil {
			s.slots[s.find(hashOf(l.space, l.Addr), l.space, l.Addr)] = l
		}
	}
}
