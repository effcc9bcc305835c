package budget

import (
	"slices"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// limits of the tests: 1 % and 64 MiB.
var limits = Limits{CPU: 0.01, Memory: 64 << 20}

// of returns a measurement of the CPU time in per cent, with little memory.
func of(percent float64) Measurement {
	return Measurement{CPU: Known(percent / 100), Memory: Known(20 << 20)}
}

// repeat hands the same measurement n times, and returns the last level.
func repeat(c *Controller, n int, m Measurement) int {
	for range n {
		c.Next(m)
	}
	return c.Level()
}

// levels returns the level after each measurement.
func levels(c *Controller, all ...Measurement) (got []int) {
	for _, m := range all {
		got = append(got, c.Next(m))
	}
	return got
}

func TestNext(t *testing.T) {
	require.NoKernel(t)
	memory := func(mib float64) Measurement { return Measurement{CPU: Known(0.001), Memory: Known(mib * (1 << 20))} }
	pending := func(m Measurement) Measurement { m.Pending = true; return m }
	noCPU := func(m Measurement) Measurement { m.CPU = Value{}; return m }
	for _, test := range []struct {
		name   string
		limits Limits
		at     int // level at the start
		all    []Measurement
		want   []int
	}{
		{"within the budget", limits, 0, []Measurement{of(0.9), of(1), of(0.1), of(1)}, []int{0, 0, 0, 0}},
		{"a peak", limits, 0, []Measurement{of(9), of(0.5), of(9), of(0.5)}, []int{0, 0, 0, 0}},
		{"over the budget", limits, 0, []Measurement{of(1.1), of(1.1), of(1.1), of(1.1)}, []int{0, 1, 1, 2}},
		{"the last level", limits, 3, []Measurement{of(5), of(5), of(5), of(5)}, []int{3, 3, 3, 3}},
		{"memory", limits, 0, []Measurement{memory(65), memory(65), memory(63), memory(63)}, []int{0, 1, 1, 1}},
		{"no limits", Limits{}, 0, []Measurement{of(90), of(90), memory(9000), memory(9000)}, []int{0, 0, 0, 0}},
		{"no limit of memory", Limits{CPU: 0.01}, 0, []Measurement{memory(9000), memory(9000), of(2), of(2)}, []int{0, 0, 0, 1}},
		{"pending", limits, 0, []Measurement{of(2), pending(of(2)), of(2), of(2)}, []int{0, 0, 0, 1}},
		{"CPU time is missing", limits, 0, []Measurement{noCPU(of(0)), noCPU(of(0)), noCPU(of(0))}, []int{0, 0, 0}},
		{"memory with CPU time missing", limits, 0, []Measurement{noCPU(memory(70)), noCPU(memory(70))}, []int{0, 1}},
		{"a gap between two periods over the budget", limits, 0, []Measurement{of(2), noCPU(of(0)), of(2), of(2)}, []int{0, 0, 0, 1}},
		{"a pause, then back", limits, 2, slices.Repeat([]Measurement{of(0.1)}, 12), []int{2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0}},
		{"never below 0", limits, 0, slices.Repeat([]Measurement{of(0)}, 7), []int{0, 0, 0, 0, 0, 0, 0}},
		{"near the budget", limits, 2, slices.Repeat([]Measurement{of(0.8)}, 7), []int{2, 2, 2, 2, 2, 2, 2}},
		{"memory near the budget", limits, 2, slices.Repeat([]Measurement{memory(60)}, 7), []int{2, 2, 2, 2, 2, 2, 2}},
		{"memory under the budget", limits, 2, slices.Repeat([]Measurement{memory(56)}, 7), []int{2, 2, 2, 2, 2, 1, 1}},
		{"nothing is taken up without a measurement", limits, 2, slices.Repeat([]Measurement{noCPU(of(0))}, 7), []int{2, 2, 2, 2, 2, 2, 2}},
		{"a gap in a pause", limits, 2, append(slices.Repeat([]Measurement{of(0.1)}, 5), noCPU(of(0)), of(0.1), of(0.1)),
			[]int{2, 2, 2, 2, 2, 2, 2, 2}},
	} {
		c := New(test.limits, 3)
		c.level = test.at
		if got := levels(c, test.all...); !slices.Equal(got, test.want) {
			t.Errorf("%s: levels %v, want %v", test.name, got, test.want)
		}
	}
}

// TestStorm has the cost of a node at each level: without a storm within the budget at level 0, in a storm only at level 4. The controller
// arrives there, stays but for trials, and goes back to level 0 after the storm.
func TestStorm(t *testing.T) {
	require.NoKernel(t)
	calm := []float64{0.6, 0.4, 0.3, 0.25, 0.2, 0.15}
	storm := []float64{8, 5, 3, 1.8, 0.7, 0.5}
	c := New(limits, len(calm)-1)
	run := func(costs []float64, periods int) (over int) {
		for range periods {
			cost := costs[c.Level()]
			if cost > 1 {
				over++
			}
			c.Next(of(cost))
		}
		return over
	}
	if run(calm, 1000); c.Level() != 0 {
		t.Errorf("level %d without a storm", c.Level())
	}
	if over := run(storm, 8); c.Level() != 4 || over != 8 {
		t.Errorf("level %d after 8 periods of a storm, %d of them over the budget", c.Level(), over)
	}
	// Two periods over the budget for each trial. Pauses are 6, 12, 24 … 384, so that a day (8640 periods) has at most 28 trials.
	if over := run(storm, 8640); over > 2*28 {
		t.Errorf("%d periods over the budget in a day of storm", over)
	}
	if run(calm, mostPause+5*periodsTrial); c.Level() != 0 {
		t.Errorf("level %d after the storm", c.Level())
	}
	if c.pause != leastPause {
		t.Errorf("the pause is still %d periods long", c.pause)
	}
}

// TestOscillation has a cost that is within the budget at level 1 only, and far below it there. Trials become rare.
func TestOscillation(t *testing.T) {
	require.NoKernel(t)
	c := New(limits, 1)
	costs := []float64{1.5, 0.5}
	changes, last := 0, 0
	for range 2000 {
		if l := c.Next(of(costs[c.Level()])); l != last {
			changes, last = changes+1, l
		}
	}
	// 6 + 12 + 24 + 48 + 96 + 192 + 384 periods are seven trials; 384 for each further one.
	if changes < 3 || changes > 2*11 {
		t.Errorf("%d changes in 2000 periods", changes)
	}
	if c.pause != mostPause {
		t.Errorf("the pause is %d", c.pause)
	}
	// What is taken up again and kept for the time of a trial makes pauses short again.
	repeat(c, mostPause+periodsTrial+1, of(0.1))
	if c.Level() != 0 || c.pause != leastPause {
		t.Errorf("level %d, a pause of %d", c.Level(), c.pause)
	}
	// Later excess is no failed trial.
	if got := repeat(c, periodsOver, of(2)); got != 1 || c.pause != leastPause {
		t.Errorf("level %d, a pause of %d", got, c.pause)
	}
}

func TestLadder(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct {
		name   string
		all    Plan
		pushed bool
		want   []Plan
	}{
		{"all", Plan{19, 6, false, true, false}, true, []Plan{{19, 6, false, true, false}, {9, 6, false, true, false}, {4, 6, false, true, false}, {2, 6, false, true, false}, {2, 3, false, true, false}, {2, 1, false, true, false}, {0, 1, false, false, false}}},
		{"not pushed", Plan{19, 6, false, true, false}, false, []Plan{{19, 6, false, true, false}, {9, 6, false, true, false}, {4, 6, false, true, false}, {2, 6, false, true, false}, {0, 6, false, false, false}, {0, 3, false, false, false}, {0, 1, false, false, false}}},
		{"no profile", Plan{0, 4, false, false, false}, false, []Plan{{0, 4, false, false, false}, {0, 2, false, false, false}, {0, 1, false, false, false}}},
		{"off-CPU time only", Plan{0, 1, false, true, false}, false, []Plan{{0, 1, false, true, false}, {0, 1, false, false, false}}},
		{"a low frequency", Plan{3, 1, false, true, false}, true, []Plan{{3, 1, false, true, false}, {0, 1, false, false, false}}},
		{"inside", Plan{4, 2, true, true, false}, true, []Plan{{4, 2, true, true, false}, {2, 2, true, true, false}, {2, 2, false, true, false}, {2, 1, false, true, false}, {0, 1, false, false, false}}},
		{"containers", Plan{0, 2, false, true, true}, true, []Plan{{0, 2, false, true, true}, {0, 1, false, true, true}, {0, 1, false, false, true}, {0, 1, false, false, false}}},
		{"nothing", Plan{}, true, []Plan{{}}},
	} {
		if got := Ladder(test.all, test.pushed); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestGivesUp(t *testing.T) {
	require.NoKernel(t)
	all := Plan{20, 4, false, true, false}
	for _, test := range []struct {
		all, plan Plan
		want      GivenUp
	}{
		{all, all, GivenUp{}},
		{all, Plan{5, 4, false, true, false}, GivenUp{Frequency: 0.75}},
		{all, Plan{5, 1, false, true, false}, GivenUp{Frequency: 0.75, Events: 0.75}},
		{all, Plan{0, 1, false, false, false}, GivenUp{1, 0, 0.75, 1, 0}},
		{Plan{Inside: true}, Plan{}, GivenUp{Inside: 1}},
		{Plan{Switches: true}, Plan{}, GivenUp{Containers: 1}},
		{Plan{}, Plan{}, GivenUp{}},
	} {
		if got := test.plan.GivesUp(test.all); got != test.want {
			t.Errorf("%+v of %+v gives up %+v, want %+v", test.plan, test.all, got, test.want)
		}
	}
}

// TestLastForCPU checks that memory alone does not lead to the last level.
func TestLastForCPU(t *testing.T) {
	require.NoKernel(t)
	c := New(Limits{CPU: 0.01, Memory: 100}, 2)
	c.LastForCPU()
	for range 10 {
		c.Next(Measurement{CPU: Known(0.001), Memory: Known(200)})
	}
	if c.Level() != 1 {
		t.Errorf("level %d for memory, want 1", c.Level())
	}
	for range 10 {
		c.Next(Measurement{CPU: Known(0.02), Memory: Known(200)})
	}
	if c.Level() != 2 {
		t.Errorf("level %d for CPU time, want 2", c.Level())
	}
}
