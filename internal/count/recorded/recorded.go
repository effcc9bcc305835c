// Package recorded reads the counts of recordings that stat record made, round by round.
//
// Such a recording has a STAT record for each counter and a STAT_ROUND record at the end of each round: an interval, or the whole run. Its
// values are sums since the start.
package recorded

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// Round has the readings at the end of an interval, or of the whole run.
type Round struct {
	Final bool // of the whole run
	Time  time.Duration
	Cells []count.Cell // by event, thread and CPU; Event and Thread are indexes of the recording's events and of Threads
	Since []count.Cell // the same cells at the end of the round before
	Idle  []int        // events without readings, ascending
}

// Config is what a recording says about its session: PERF_RECORD_STAT_CONFIG.
type Config struct {
	Aggregation uint64 // enum aggr_mode, which depends on the version of perf
	Level       uint64 // of the caches to aggregate by
	HasLevel    bool   // since perf 6.5
	Interval    uint64 // ms
	Raw         bool   // do not scale multiplexed counts
}

// mostCells limits the counters of a recording.
const mostCells = 1 << 20

// mostIdle and idlePerReading limit Round.Idle: to a number of events on CPUs and threads over all rounds, and to a number for each reading.
// Otherwise a small recording could have many events and many rounds with few readings.
const (
	mostIdle       = 1 << 20
	idlePerReading = 64
)

// Rounds collects the readings of a recording. Make one with New.
type Rounds struct {
	Config  Config
	Threads []perfdata.MappedThread // of the first THREAD_MAP
	CPUs    []int                   // of the first CPU_MAP, ascending
	LeftOut uint64                  // readings of no known event or thread, or beyond mostCells
	Cut     uint64                  // rounds whose Idle is empty because there were too many

	events  func() []*perfdata.Event
	event   func(id uint64) *perfdata.Event
	configs bool // a STAT_CONFIG was read

	counters map[key]*counter
	round    uint64 // number of the round, from 1 on
	cells    []count.Cell
	most     int // counters
	idle     int // what mostIdle and idlePerReading still allow
}

// key identifies a counter.
type key struct{ event, thread, cpu int }

// counter is what is known of a counter.
type counter struct {
	last  perfevent.Reading // at the end of the round before
	round uint64            // of the last reading
	at    int               // index in cells, in that round
}

// New returns the rounds of a recording. events returns the events that are known so far: those of a pipe can come later. event returns the
// known event with an ID, or nil.
func New(events func() []*perfdata.Event, event func(id uint64) *perfdata.Event) *Rounds {
	return &Rounds{Config: Config{Aggregation: Global}, events: events, event: event, counters: map[key]*counter{}, round: 1, most: mostCells, idle: mostIdle}
}

// Add adds a record, and returns a round if the record completes one. The round is valid until the next call.
func (r *Rounds) Add(record *perfdata.Record) (*Round, error) {
	switch v := record.Value.(type) {
	case *perfdata.StatConfig:
		r.configure(v)
	case *perfdata.ThreadMap:
		if r.Threads == nil {
			r.Threads = v.Threads
		}
	case *perfdata.CPUMap:
		if r.CPUs == nil {
			r.CPUs = slices.Sorted(slices.Values(v.CPUs))
		}
	case *perfdata.Stat:
		r.read(v)
	case *perfdata.StatRound:
		if v.Time > math.MaxInt64 {
			return nil, fmt.Errorf("a round of counts ends at %d ns: this is no time", v.Time)
		}
		return r.complete(v), nil
	}
	return nil, nil
}

// These are the tags of STAT_CONFIG: enum perf_stat_config_term in tools/lib/perf/include/perf/event.h.
const (
	TagAggregation = 0
	TagInterval    = 1
	TagScale       = 2
	TagLevel       = 3
)

// Global is AGGR_GLOBAL of enum aggr_mode, in all versions: everything is added up.
const Global = 1

func (r *Rounds) configure(v *perfdata.StatConfig) {
	if r.configs {
		return
	}
	r.configs = true
	for _, t := range v.Terms {
		switch t.Tag {
		case TagAggregation:
			r.Config.Aggregation = t.Value
		case TagInterval:
			r.Config.Interval = t.Value
		case TagScale:
			r.Config.Raw = t.Value == 0
		case TagLevel:
			r.Config.Level, r.Config.HasLevel = t.Value, true
		}
	}
}

// read adds a reading to the round.
func (r *Rounds) read(v *perfdata.Stat) {
	event := r.event(v.ID)
	if event == nil || v.Thread < 0 || int(v.Thread) >= max(len(r.Threads), 1) || v.CPU < count.None {
		r.LeftOut++
		return
	}
	k := key{event.Index, int(v.Thread), int(v.CPU)}
	c := r.counters[k]
	if c == nil {
		if len(r.counters) == r.most {
			r.LeftOut++
			return
		}
		c = new(counter)
		r.counters[k] = c
	}
	if c.round != r.round {
		c.round, c.at = r.round, len(r.cells)
		r.cells = append(r.cells, count.Cell{Event: k.event, CPU: k.cpu, Thread: k.thread, Cgroup: count.None, Program: count.None})
	}
	r.cells[c.at].Reading = perfevent.Reading{Value: v.Value, Enabled: v.Enabled, Running: v.Running}
}

// complete ends the round.
func (r *Rounds) complete(v *perfdata.StatRound) *Round {
	const final = 1 // PERF_STAT_ROUND_TYPE__FINAL
	round := &Round{Final: v.Type == final, Time: time.Duration(v.Time), Cells: r.cells}
	slices.SortFunc(round.Cells, func(a, b count.Cell) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.CPU, b.CPU))
	})
	round.Since = slices.Clone(round.Cells)
	for i := range round.Cells {
		now := round.Cells[i].Reading
		c := r.counters[key{round.Cells[i].Event, round.Cells[i].Thread, round.Cells[i].CPU}]
		last := c.last
		if now.Value < last.Value || now.Enabled < last.Enabled || now.Running < last.Running {
			last = perfevent.Reading{} // the counter began anew
		}
		round.Since[i].Reading, c.last = last, now
	}
	round.Idle = r.idleEvents(round.Cells)
	r.cells = r.cells[:0]
	r.round++
	return round
}

// idleEvents returns the events that are not in a round's cells, as long as there are not too many.
func (r *Rounds) idleEvents(cells []count.Cell) (idle []int) {
	r.idle += idlePerReading * len(cells)
	if r.idle <= 0 {
		r.Cut++
		return nil
	}
	for e := range r.events() {
		if len(cells) == 0 || cells[0].Event != e {
			idle = append(idle, e)
		}
		for len(cells) > 0 && cells[0].Event == e {
			cells = cells[1:]
		}
	}
	r.idle -= len(idle) * max(1, len(r.CPUs)) * max(1, len(r.Threads))
	return idle
}

// TID returns the ID of a thread, or -1 for all threads.
func (r *Rounds) TID(thread int) int64 {
	if thread >= len(r.Threads) {
		return -1
	}
	return r.Threads[thread].TID
}

// Losses returns sentences about what is missing from the rounds.
func (r *Rounds) Losses() (all []string) {
	if r.LeftOut > 0 {
		all = append(all, fmt.Sprintf("%d readings are left out: they are of no event or thread of the recording, or of more than %d counters",
			r.LeftOut, r.most))
	}
	if r.Cut > 0 {
		all = append(all, fmt.Sprintf("%d rounds are without the events that have no readings: there are too many", r.Cut))
	}
	return all
}

// Pending reports whether there are readings that belong to no round yet.
func (r *Rounds) Pending() bool { return len(r.cells) > 0 }
