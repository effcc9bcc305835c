package replay

import (
	"sync"
	"sync/atomic"

	"github.com/bperf/bperf/internal/hashindex"
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

// shard has some of the locations. It has no pointer for each of them, which the garbage collector would have to follow.
type shard struct {
	mu     sync.Mutex
	count  int
	index  hashindex.Index // of the locations
	chunks []*[1 << chunkBits]Location
}

// chunkBits is the number of locations in a chunk, as a power of two.
const chunkBits = 5

func (l *Location) hash() uint64 { return hashOf(l.space, l.Addr) }

func hashOf(space int32, addr uint64) uint64 {
	x := addr ^ uint64(uint32(space))<<40
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

// get returns the location of an address. fill completes a new one.
func (t *locations) get(hash uint64, space int32, addr uint64, fill func(*Location)) *Location {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.IsFull(s.count) {
		s.index = s.index.Grown(64, s.count, func(position int) uint64 { return s.at(position).hash() >> shardBits })
	}
	l, at := s.find(hash, space, addr)
	if l != nil {
		return l
	}
	l = s.add(at)
	if before := t.before.known(hash, space, addr); before != nil {
		*l = *before
	} else {
		*l = Location{Addr: addr, space: space, Source: &noSource}
		fill(l)
	}
	l.Index = t.count.Add(1) - 1
	return l
}

func (t *locations) shard(hash uint64) *shard { return &t.shards[hash&(1<<shardBits-1)] }

// known returns an existing location, or nil. No other goroutine may work on its shard.
func (t *locations) known(hash uint64, space int32, addr uint64) *Location {
	if t == nil || t.shard(hash).count == 0 {
		return nil
	}
	l, _ := t.shard(hash).find(hash, space, addr)
	return l
}

// find returns a location, or nil and where the search for it has ended.
func (s *shard) find(hash uint64, space int32, addr uint64) (*Location, hashindex.Search) {
	for at := s.index.Search(hash >> shardBits); ; at.Next() {
		slot := s.index[at.At]
		if slot == 0 {
			return nil, at
		}
		if !at.Matches(slot) {
			continue
		}
		if l := s.at(at.Position(slot)); l.Addr == addr && l.space == space {
			return l, at
		}
	}
}

// at returns the location with a position in the index.
func (s *shard) at(position int) *Location {
	return &s.chunks[(position-1)>>chunkBits][(position-1)%(1<<chunkBits)]
}

// add returns room for a location whose search has ended.
func (s *shard) add(at hashindex.Search) *Location {
	if s.count>>chunkBits == len(s.chunks) {
		s.chunks = append(s.chunks, new([1 << chunkBits]Location))
	}
	s.count++
	s.index[at.At] = at.Slot(s.count)
	return s.at(s.count)
}
