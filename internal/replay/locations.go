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
	slots []slot
}

// slot is a location with its hash: locations that differ are seldom compared, and each of them would be a cache miss.
type slot struct {
	hash uint64
	*Location
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
	at := s.find(hash, space, addr)
	if at.Location != nil {
		return at.Location
	}
	l := t.before.known(hash, space, addr)
	if l == nil {
		l = &Location{Addr: addr, space: space, Source: &noSource}
		fill(l)
	}
	l.Index = t.count.Add(1) - 1
	*at = slot{hash, l}
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
	return s.find(hash, space, addr).Location
}

// find returns the slot of a location, or the free slot for it.
func (s *shard) find(hash uint64, space int32, addr uint64) *slot {
	mask := uint64(len(s.slots) - 1)
	i := hash >> shardBits & mask
	for s.slots[i].Location != nil && (s.slots[i].hash != hash || s.slots[i].Addr != addr || s.slots[i].space != space) {
		i = (i + 1) & mask
	}
	return &s.slots[i]
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]slot, max(64, 2*len(old)))
	clear(s.slots) // written before they are read, as in package profile
	for _, known := range old {
		if known.Location != nil {
			*s.find(known.hash, known.space, known.Addr) = known
		}
	}
}
