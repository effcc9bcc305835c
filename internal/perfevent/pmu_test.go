package perfevent

import (
	"math"
	"slices"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// Hardware events: enum perf_hw_id.
var (
	cycles       = perfdata.Attr{Type: perfdata.TypeHardware, Config: 0, Flags: perfdata.AttrExcludeKernel}
	instructions = perfdata.Attr{Type: perfdata.TypeHardware, Config: 1, Flags: perfdata.AttrExcludeKernel}
)

var spun int // keeps the compiler from removing the loop

// spin is a loop of a fixed number of instructions per round.
//
//go:noinline
func spin(rounds int) {
	sum := 0
	for i := range rounds {
		sum += i ^ sum
	}
	spun = sum
}

// Twice the rounds are twice the instructions. Now and then Go's scheduler interrupts the loop, which adds instructions, so the
// test uses the smallest count of several runs.
func TestInstructions(t *testing.T) {
	require.PMU(t)
	e := openSelf(t, instructions, nil)
	least := func(rounds int) uint64 {
		var counts []uint64
		for range 40 {
			start, err := e.Read()
			check(t, err)
			r := during(t, e, func() { spin(rounds) }).Sub(start)
			if r.Running != r.Enabled || r.Running == 0 {
				t.Errorf("%+v, want it to run all the time", r)
			}
			counts = append(counts, r.Value)
		}
		return slices.Min(counts)
	}
	const rounds = 200_000
	perRound := float64(least(2*rounds)-least(rounds)) / rounds
	if math.Abs(perRound-math.Round(perRound)) > 0.001*perRound || perRound < 2 {
		t.Errorf("%v instructions per round, want a whole number within 0.1 %%", perRound)
	}
}

func TestCyclesAndInstructionsInOneGroup(t *testing.T) {
	require.PMU(t)
	leaderAttr, memberAttr := cycles, instructions
	leaderAttr.ReadFormat, memberAttr.ReadFormat = perfdata.ReadGroup, perfdata.ReadGroup
	leader := openSelf(t, leaderAttr, nil)
	openSelf(t, memberAttr, leader)
	check(t, leader.Enable())
	spin(1_000_000)
	check(t, leader.Disable())
	var got [2]Reading
	check(t, leader.ReadGroup(got[:]))
	if got[0].Value == 0 || got[1].Value < 2_000_000 {
		t.Errorf("%+v, want cycles and at least 2 instructions per round", got)
	}
}

// The guest's PMU has 7 counters, one of them only for cycles. Ten events are multiplexed: at most 7 are running at each moment, and the kernel
// leaves hardly any counter idle. Without scaling the counts would be too low by 30 to 40 %. Estimates differ if the other CPU is busy for
// a part of the time, because time passes for it, too: 30 ms make 3 %.
func TestMultiplexing(t *testing.T) {
	require.ExactPMU(t)
	events := []*Event{openSelf(t, cycles, nil)}
	for range 9 {
		events = append(events, openSelf(t, instructions, nil))
	}
	for _, e := range events {
		check(t, e.Enable())
	}
	spin(300_000_000)
	var share float64
	var estimates []float64
	for i, e := range events {
		check(t, e.Disable())
		r, err := e.Read()
		check(t, err)
		if r.Running >= r.Enabled || r.Running == 0 {
			t.Errorf("event %d: %+v, want it to run part of the time", i, r)
		}
		share += float64(r.Running) / float64(r.Enabled)
		if i > 0 {
			estimates = append(estimates, float64(r.Value)*float64(r.Enabled)/float64(r.Running))
		}
	}
	if share > 7.01 || share < 6 {
		t.Errorf("the events run %.2f of 10 times the time, want at most 7 and at least 6", share)
	}
	for _, v := range estimates {
		if math.Abs(v/estimates[0]-1) > 0.2 {
			t.Errorf("estimates %.0f of the same loop, want them within 20 %%", estimates)
			break
		}
	}
}

// Each period causes one sample. The event is cycles, because QEMU notices an overflow of instructions only at the kernel's tick.
func TestOverflow(t *testing.T) {
	require.PMU(t)
	const period = 1_000_000
	attr := cycles
	attr.SamplePeriod, attr.SampleType, attr.WakeupEvents = period, perfdata.SampleIP, 1
	e := openSelf(t, attr, nil)
	r, err := e.Map(3)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	got := during(t, e, func() { spin(20_000_000) })
	samples := uint64(0)
	for {
		rec, ok, err := r.Next()
		check(t, err)
		if !ok {
			break
		}
		if rec.Type != RecordSample {
			t.Errorf("a record of type %d, want samples only", rec.Type)
		}
		samples++
	}
	if want := got.Value / period; samples < want-1 || samples > want {
		t.Errorf("%d samples of %d cycles with a period of %d", samples, got.Value, period)
	}
}
