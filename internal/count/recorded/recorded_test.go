package recorded

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func events() []*perfdata.Event {
	return []*perfdata.Event{{Name: "a", IDs: []uint64{1, 2}}, {Name: "b", IDs: []uint64{3}, Index: 1}}
}

func event(id uint64) *perfdata.Event {
	for _, e := range events() {
		if slices.Contains(e.IDs, id) {
			return e
		}
	}
	return nil
}

// add adds values as records, and returns the last round that they complete.
func add(t *testing.T, r *Rounds, values ...perfdata.Value) (last *Round) {
	t.Helper()
	for _, v := range values {
		round, err := r.Add(&perfdata.Record{Value: v})
		if err != nil {
			t.Fatal(err)
		}
		if round != nil {
			last = round
		}
	}
	return last
}

func stat(id uint64, cpu int32, value uint64) *perfdata.Stat {
	return &perfdata.Stat{ID: id, CPU: cpu, Value: value, Enabled: value, Running: value}
}

func cell(event, cpu int, value uint64) count.Cell {
	return count.Cell{Event: event, CPU: cpu, Cgroup: count.None, Program: count.None, Reading: perfevent.Reading{Value: value, Enabled: value, Running: value}}
}

// TestRounds reads two rounds. The second one lacks a counter, has another one twice, and a third one began anew.
func TestRounds(t *testing.T) {
	require.NoKernel(t)
	r := New(events, event)
	got := add(t, r, &perfdata.CPUMap{CPUs: []int{1, 0}}, stat(3, 0, 5), stat(2, 1, 6), stat(1, 0, 7), &perfdata.StatRound{Time: 10})
	want := &Round{Time: 10, Cells: []count.Cell{cell(0, 0, 7), cell(0, 1, 6), cell(1, 0, 5)}, Since: []count.Cell{cell(0, 0, 0), cell(0, 1, 0), cell(1, 0, 0)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = add(t, r, stat(1, 0, 8), stat(3, 0, 4), stat(1, 0, 9), &perfdata.StatRound{Type: 1, Time: 20})
	want = &Round{Final: true, Time: 20, Cells: []count.Cell{cell(0, 0, 9), cell(1, 0, 4)}, Since: []count.Cell{cell(0, 0, 7), cell(1, 0, 0)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 1}, r.CPUs); diff != "" || r.LeftOut != 0 || r.Pending() {
		t.Error(diff, r.LeftOut, r.Pending())
	}
	if got := add(t, r, stat(2, 0, 10), &perfdata.StatRound{}); !slices.Equal(got.Idle, []int{1}) {
		t.Errorf("idle events %d, want 1", got.Idle)
	}
	if add(t, r, stat(1, 0, 10)); !r.Pending() {
		t.Error("a reading of no round is not pending")
	}
}

// TestConfig reads only the first configuration.
func TestConfig(t *testing.T) {
	require.NoKernel(t)
	r := New(events, event)
	config := func(terms ...perfdata.StatConfigTerm) *perfdata.StatConfig { return &perfdata.StatConfig{Terms: terms} }
	add(t, r, config(perfdata.StatConfigTerm{Tag: TagAggregation, Value: 6}, perfdata.StatConfigTerm{Tag: TagInterval, Value: 50},
		perfdata.StatConfigTerm{Tag: TagScale, Value: 0}, perfdata.StatConfigTerm{Tag: TagLevel, Value: 3}, perfdata.StatConfigTerm{Tag: 99, Value: 9}),
		config(perfdata.StatConfigTerm{Tag: TagInterval, Value: 9}))
	if diff := cmp.Diff(Config{Aggregation: 6, Level: 3, HasLevel: true, Interval: 50, Raw: true}, r.Config); diff != "" {
		t.Error(diff)
	}
}

// TestLimits counts readings that are left out.
func TestLimits(t *testing.T) {
	require.NoKernel(t)
	r := New(events, event)
	r.most = 100
	r.Threads = []perfdata.MappedThread{{TID: 7}}
	add(t, r, stat(9, 0, 1), stat(1, -2, 1), &perfdata.Stat{ID: 1, Thread: 1}, &perfdata.Stat{ID: 1, Thread: -1})
	if r.LeftOut != 4 || r.Pending() {
		t.Errorf("%d readings are left out, want 4", r.LeftOut)
	}
	for cpu := range r.most + 3 {
		add(t, r, stat(1, int32(cpu), 1))
	}
	if round := add(t, r, &perfdata.StatRound{Time: uint64(time.Second)}); len(round.Cells) != r.most || r.LeftOut != 7 {
		t.Errorf("%d counters, %d readings left out", len(round.Cells), r.LeftOut)
	}
	r = New(events, event)
	r.idle = 5
	for range 4 {
		add(t, r, &perfdata.StatRound{})
	}
	if round := add(t, r, &perfdata.StatRound{}); r.Cut != 2 || round.Idle != nil || len(r.Losses()) != 1 {
		t.Errorf("%d rounds are cut, want 2; events %d", r.Cut, round.Idle)
	}
	if _, err := r.Add(&perfdata.Record{Value: &perfdata.StatRound{Time: 1 << 63}}); err == nil {
		t.Error("a round that ends at no time is no error")
	}
}
