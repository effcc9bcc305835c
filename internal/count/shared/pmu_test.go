package shared

import (
	"math"
	"testing"

	"github.com/bperf/bperf/internal/event"
	loop "github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestKeys checks that events that count the same share a counter, even if their sampling options differ.
func TestKeys(t *testing.T) {
	cycles := keyOf(parseEvents(t, "cycles").Events()[0], false, false)
	for other, same := range map[string]bool{
		"cycles:b": true, "cycles/period=1000/": true, "cycles/freq=100/": true, "cpu-cycles": true,
		"cycles:u": false, "cycles:k": false, "instructions": false, "cycles:G": false,
	} {
		if got := keyOf(parseEvents(t, other).Events()[0], false, false) == cycles; got != same {
			t.Errorf("%s is like cycles: %v, want %v", other, got, same)
		}
	}
	user := parseEvents(t, "cycles:u").Events()[0]
	if keyOf(parseEvents(t, "cycles").Events()[0], true, false) != keyOf(user, false, false) {
		t.Error("all events in user mode: cycles is not cycles:u")
	}
}

// TestMoreEventsThanCounters makes the kernel multiplex: each event is marked as scaled, and the estimates are near the truth. They are
// not exact. In a guest, work of the other CPU also takes time, so the program is slower then, and the estimate of an event that does
// not count then is too high. If a process spins there for 30 ms of the 600, estimates differ by 3 %. Without scaling they would be too
// low by 30 to 40 %.
func TestMoreEventsThanCounters(t *testing.T) {
	require.ExactPMU(t)
	dir := sharing(t)
	const events, times = 10, 300_000_000
	const instructions, near = 2 * times, 0.2
	var list event.List
	for i := range uint32(events) {
		e := *parseEvents(t, "instructions:u").Events()[0]
		e.Attr.WakeupEvents = i // does not affect counting, but makes the events distinct
		list = append(list, event.Group{Events: []*event.Event{&e}})
	}
	pid, proceed := waiting(t, loop.Program{Body: loop.Spin, Times: times})
	c, err := Open(Where{Dir: dir}, list, resolve(t, pids(pid)), Options{})
	check(t, err)
	defer c.Close()
	check(t, c.Enable())
	proceed()
	cells, err := c.Read(nil)
	check(t, err)
	for i, cell := range cells {
		if cell.Running >= cell.Enabled || cell.Running == 0 {
			t.Errorf("event %d: %+v, want it to run part of the time", i, cell)
			continue
		}
		estimate := float64(cell.Value) * float64(cell.Enabled) / float64(cell.Running)
		if math.Abs(estimate/instructions-1) > near {
			t.Errorf("event %d: about %.0f of %d", i, estimate, instructions)
		}
	}
}
