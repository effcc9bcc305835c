package program

import (
	"slices"
	"strings"
	"testing"
)

// TestPositionsOf adds and removes sessions by hand.
func TestPositionsOf(t *testing.T) {
	event := func(row uint64) wanted { return wanted{key: row << 1} }
	inMemory := func(row uint64) wanted { return wanted{key: row << 1, memory: true} }
	calibrated := func(row uint64) wanted { return wanted{key: row<<1 | 1} }
	set := func(keys ...wanted) (s probesSet) {
		for i, w := range keys {
			s.Keys[i] = w.key
			s.Calibrated |= w.key & 1 << i
			if w.memory {
				s.Memory |= 1 << i
			}
		}
		s.Events = uint64(len(keys))
		return s
	}
	for name, test := range map[string]struct {
		before probesSet
		stay   uint64
		want   []wanted
		after  probesSet
		at     []int
	}{
		"first":            {want: []wanted{event(5), inMemory(6)}, after: set(event(5), inMemory(6)), at: []int{0, 1}},
		"nothing":          {after: set()},
		"the same twice":   {want: []wanted{event(5), event(5)}, after: set(event(5)), at: []int{0, 0}},
		"one that is not":  {want: []wanted{{never: true}, event(0)}, after: set(event(0)), at: []int{-1, 0}},
		"joins":            {before: set(event(5)), stay: 1, want: []wanted{event(7), event(5)}, after: set(event(5), event(7)), at: []int{1, 0}},
		"calibrated too":   {before: set(event(5)), stay: 1, want: []wanted{calibrated(5)}, after: set(event(5), calibrated(5)), at: []int{1}},
		"leaves a gap":     {before: set(inMemory(5), event(6), event(7)), stay: 0b101, after: set(inMemory(5), inMemory(5), event(7))},
		"first goes":       {before: set(event(5), calibrated(6)), stay: 0b10, after: set(event(6), calibrated(6))},
		"last goes":        {before: set(event(5), event(6)), stay: 0b01, after: set(event(5))},
		"gap is filled":    {before: set(event(5), event(5), event(7)), stay: 0b101, want: []wanted{inMemory(8)}, after: set(event(5), inMemory(8), event(7)), at: []int{1}},
		"not by who left":  {before: set(event(5), event(6)), stay: 0b01, want: []wanted{event(6)}, after: set(event(5), event(6)), at: []int{1}},
		"all go":           {before: set(event(5), event(6)), after: set()},
		"all have changed": {before: set(event(5), event(6)), want: []wanted{event(9)}, after: set(event(9)), at: []int{0}},
	} {
		after, at, err := positionsOf(&test.before, test.stay, test.want)
		check(t, err)
		if !after.same(&test.after) || !slices.Equal(at, test.at) {
			t.Errorf("%s: %d events %v memory %b calibrated %b at %v, want %d %v %b %b at %v", name,
				after.Events, after.Keys[:4], after.Memory, after.Calibrated, at,
				test.after.Events, test.after.Keys[:4], test.after.Memory, test.after.Calibrated, test.at)
		}
	}
	full := probesSet{Events: maxEvents}
	for i := range full.Keys {
		full.Keys[i] = uint64(i) << 1
	}
	if _, _, err := positionsOf(&full, 1<<maxEvents-1, []wanted{event(70)}); err == nil || !strings.Contains(err.Error(), "64 events") {
		t.Errorf("one more than there is room for: %v", err)
	}
	if _, at, err := positionsOf(&full, 1<<maxEvents-1, []wanted{event(63)}); err != nil || at[0] != 63 {
		t.Errorf("the last of 64: at %v, %v", at, err)
	}
}
