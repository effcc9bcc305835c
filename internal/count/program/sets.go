package program

import (
	"fmt"
	"math/bits"
)

// wanted is an event that a session counts.
type wanted struct {
	key    uint64 // its row in the array of events times 2, plus 1 if the overhead is subtracted from each run
	memory bool   // the kernel counts the event in memory
	never  bool   // it cannot be counted: it gets no position
}

// positionsOf returns the next set, and the position of each wanted event in it. The set keeps the positions in stay (one bit each) and has all wanted
// events. An unused position before the last used one gets the event of another position, so that the set has no gaps, which the probes would have to
// check for.
func positionsOf(set *probesSet, stay uint64, want []wanted) (next probesSet, at []int, err error) {
	next.Keys, next.Memory = set.Keys, set.Memory&stay
	at = make([]int, len(want))
	for i, w := range want {
		at[i] = positionOf(&next, stay, w.key)
		if w.never {
			at[i] = -1
		}
		if w.never || at[i] >= 0 {
			continue
		}
		if stay == 1<<maxEvents-1 {
			return next, nil, fmt.Errorf("all sessions together count %d events in it already: no more can", maxEvents)
		}
		free := bits.TrailingZeros64(^stay)
		at[i] = free
		stay |= 1 << free
		next.Keys[free] = w.key
		if w.memory {
			next.Memory |= 1 << free
		}
	}
	next.Events = uint64(bits.Len64(stay))
	first := bits.TrailingZeros64(stay)
	for i := range next.Keys {
		switch {
		case uint64(i) >= next.Events:
			next.Keys[i] = 0
		case stay>>i&1 == 0:
			next.Keys[i] = next.Keys[first] &^ 1
			next.Memory |= next.Memory >> first & 1 << i
		default:
			next.Calibrated |= next.Keys[i] & 1 << i
		}
	}
	return next, at, nil
}

// positionOf returns the taken position of a key, or -1.
func positionOf(set *probesSet, taken, key uint64) int {
	for i, k := range set.Keys {
		if k == key && taken>>i&1 != 0 {
			return i
		}
	}
	return -1
}

// same reports whether the probes read the same events with both sets, and both sets have the overhead or both do not.
func (s *probesSet) same(o *probesSet) bool {
	return s.Events == o.Events && s.Keys == o.Keys && s.Calibrated == o.Calibrated && s.Measured == o.Measured && s.Memory == o.Memory
}

// current returns the set that the probes use, and next returns the other one.
func (s *probesSets) current() *probesSet { return &s.Sets[s.Version&1] }
func (s *probesSets) next() *probesSet    { return &s.Sets[^s.Version&1] }
