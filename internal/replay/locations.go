package replay

import (
	"sync"
	"sync/atomic"
)

// knownBits is the size of each resolver's own cache of locations, as a power of two.
const knownBits = 14

// locations are all locations of a replay, or of an interval. Goroutines share them, but seldom use the same shard at the same time.
type locations struct {
	count  atomic.Uint32
	shards [1 << shardBits]shard
	before *locations // locations of the interval before, which get reuses; nil for none
}

const shardBits = 5

// shard is a hash table with linear probing. Its size is a power of two.
type shard struct {
	mu    sync.Mutex
	count int
	slots []*Location
}

func hashOf(space int32, addr uint64) uint64 {
	x := addr ^ uint64(uint32(space))<<40
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

// get returns the location of an address. fill completes a new one.
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
	l := t.before.known(hash, space, addr)
	if l == nil {
		l = &Location{Addr: addr, space: space, Source: &noSource}
		fill(l)
	}
	l.Index = t.count.Add(1) - 1
	s.slots[i] = l
	s.count++
	return l
}

// known returns an existing location, or nil. No other goroutine may work on its shard.
func (t *locations) known(hash uint64, space int32, addr uint64) *Location {
	if t == nil {
		return nil
	}
	s := &t.shards[hash&(1<<shardBits-1)]
	if s.count == 0 {
		return nil
	}
	return s.slots[s.find(hash, space, addr)]
}

// find returns the slot of a location, or the free slot for it.
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
	clear(s.slots) // written before they are read, as in package profile
	for _, l := range old {
		if l != nil {
			s.slots[s.find(hashOf(l.space, l.Addr), l.space, l.Addr)] = l
		}
	}
}
