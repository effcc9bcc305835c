package direct

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

const hwInstructions = 1 // PERF_COUNT_HW_INSTRUCTIONS

// instructionGroup is a group of events that each need a counter of their own.
func instructionGroup(n int, weak bool) event.List {
	group := event.Group{Weak: weak}
	for i := range n {
		group.Events = append(group.Events, hardwareEvent(fmt.Sprint("instructions", i), hwInstructions))
	}
	return event.List{group}
}

// Seven counters, one for cycles alone, cannot hold a group of eight.
func TestGroupThatDoesNotFit(t *testing.T) {
	require.ExactPMU(t)
	self := target.Target{Threads: []target.Thread{{TID: os.Getpid(), PID: os.Getpid()}}}
	c := openCounter(t, instructionGroup(8, false), self, count.Options{})
	err := c.Err(7)
	want := "instructions7: It cannot be in one group with instructions0: the PMU has too few counters for the group, " +
		"or its events are of several PMUs. Leave out the braces, or add the modifier W to the group."
	if err == nil || err.Error() != want || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := c.Err(0); err != nil {
		t.Errorf("the leader is not counted: %v", err)
	}
}

func TestWeakGroupIsSplit(t *testing.T) {
	require.ExactPMU(t)
	self := target.Target{Threads: []target.Thread{{TID: os.Getpid(), PID: os.Getpid()}}}
	c := openCounter(t, instructionGroup(8, true), self, count.Options{})
	cells, err := c.Read(nil)
	check(t, err)
	if len(cells) != 8 || len(c.sets) != 8 {
		t.Errorf("%d cells in %d sets, want 8 events on their own", len(cells), len(c.sets))
	}
	for i := range 8 {
		if err := c.Err(i); err != nil {
			t.Error(err)
		}
	}
}

// More events are pinned than there are counters: those that lose their counter stop running, and their times show it.
func TestPinnedEventsThatDoNotFit(t *testing.T) {
	require.ExactPMU(t)
	list := single(instructionGroup(9, false).Events()...)
	for _, e := range list.Events() {
		e.Attr.Flags |= perfdata.AttrPinned
	}
	online := resolve(t, target.Spec{System: true})
	online.CPUs = online.CPUs[:1]
	c := openCounter(t, list, online, count.Options{})
	check(t, c.Enable())
	cells, err := c.Read(nil)
	check(t, err)
	again, err := c.Read(nil)
	check(t, err)
	ran := 0
	for i, cell := range again {
		if cell.Running > 0 {
			ran++
			continue
		}
		if cell.Value != 0 || cell.Enabled <= cells[i].Enabled {
			t.Errorf("%+v, then %+v: want an event that never ran, enabled for longer and longer", cells[i], cell)
		}
	}
	if ran == 0 || ran > 7 || len(again) != 9 {
		t.Errorf("%d of %d pinned events run, want some, and at most 7", ran, len(again))
	}
}

// The counts of user mode and the kernel add up to the total. The difference is the time of a context switch between
// programming one counter and the other.
func TestUserAndKernel(t *testing.T) {
	require.PMU(t)
	p := startPuppet(t, 1)
	var counters []*Counter
	for _, o := range []count.Options{{Inherit: true, AllUser: true}, {Inherit: true, AllKernel: true}, {Inherit: true}} {
		c := openCounter(t, single(hardwareEvent("instructions", hwInstructions)), resolve(t, target.Spec{PIDs: []int{p.pid()}}), o)
		check(t, c.Enable()) // the puppet sleeps until its first order
		counters = append(counters, c)
	}
	p.order("each 100000")
	user, kernel, both := totals(t, counters[0], 1)[0], totals(t, counters[1], 1)[0], totals(t, counters[2], 1)[0]
	if sum := float64(user + kernel); sum < 0.99*float64(both) || sum > 1.01*float64(both) || user == 0 || kernel < user {
		t.Errorf("%d instructions in user mode and %d in the kernel, %d in all", user, kernel, both)
	}
}
