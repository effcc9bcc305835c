package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
)

// step is what happened between two snapshots.
type step struct {
	now    *node.Snapshot
	uses   uses
	own    rate     // percent of a CPU that the daemon took
	rows   []row    // those that took the most CPU time first
	cpus   [][]rate // per second, in the order of the snapshot's CPUs and events
	events []rate   // per second, of all CPUs together
}

// row is a container.
type row struct {
	container.Name
	ended bool
	rates rates
}

// uses has the events that are known to the table of containers: their indexes, or -1.
type uses struct{ cycles, instructions, misses, faults int }

// eventsUsed finds the events of the measures. Those that are divided by each other count in the same modes of the CPU.
func eventsUsed(events []node.Event) uses {
	find := func(modifier string, names ...string) int {
		return slices.IndexFunc(events, func(e node.Event) bool {
			name, m, _ := strings.Cut(e.Name, ":")
			return e.Reason == "" && m == modifier && slices.Contains(names, name)
		})
	}
	u := uses{-1, -1, -1, -1}
	for i, e := range events {
		name, modifier, _ := strings.Cut(e.Name, ":")
		switch {
		case e.Reason != "":
		case name == "instructions" && u.instructions < 0:
			u.instructions = i
			u.cycles, u.misses = find(modifier, "cycles", "cpu-cycles"), find(modifier, "cache-misses")
		case (name == "page-faults" || name == "faults") && u.faults < 0:
			u.faults = i
		}
	}
	return u
}

// has reports whether a measure is possible.
func (u *uses) has(m measure) bool {
	switch m {
	case ipc:
		return u.cycles >= 0
	case misses:
		return u.misses >= 0
	case faults:
		return u.faults >= 0
	}
	return true
}

// newStep returns what happened between two snapshots. Without the first one, or if counting began anew, there are no rates.
func newStep(before, now *node.Snapshot) *step {
	s := &step{now: now, uses: eventsUsed(now.Events), own: rate{value: nan}}
	seconds := 0.0
	if before != nil && slices.Equal(before.Events, now.Events) {
		seconds = now.Time.Sub(before.Time).Seconds()
	} else {
		before = &node.Snapshot{}
	}
	s.own = share(before.Self.CPUTime, now.Self.CPUTime, seconds)
	s.addContainers(before, seconds)
	s.addCPUs(before, seconds)
	return s
}

func (s *step) addContainers(before *node.Snapshot, seconds float64) {
	past := make(map[uint64]*node.Container, len(before.Containers))
	for i := range before.Containers {
		past[before.Containers[i].Cgroup] = &before.Containers[i]
	}
	for i := range s.now.Containers {
		c := &s.now.Containers[i]
		b := past[c.Cgroup]
		if b == nil {
			b = &node.Container{} // it began in this step
		}
		r := row{Name: c.Name, ended: c.Ended}
		growth := func(event int) rate { return grown(readingAt(b.Readings, event), readingAt(c.Readings, event)) }
		instructions := growth(s.uses.instructions)
		r.rates = rates{
			cpuTime:  share(b.CPUTime, c.CPUTime, seconds),
			runnable: share(b.OffCPU[process.Runnable], c.OffCPU[process.Runnable], seconds),
			blocked:  share(b.OffCPU[process.Blocked], c.OffCPU[process.Blocked], seconds),
			sleeping: share(b.OffCPU[process.Sleeping], c.OffCPU[process.Sleeping], seconds),
			ipc:      quotient(instructions, growth(s.uses.cycles), 1),
			misses:   quotient(growth(s.uses.misses), instructions, 1000),
			switches: perSecond(between(b.Switches, c.Switches), seconds),
			faults:   perSecond(growth(s.uses.faults), seconds),
		}
		if seconds <= 0 {
			r.rates = noRates
		}
		s.rows = append(s.rows, r)
	}
	slices.SortStableFunc(s.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.rates[cpuTime].value, a.rates[cpuTime].value), strings.Compare(a.Path, b.Path))
	})
}

func (s *step) addCPUs(before *node.Snapshot, seconds float64) {
	past := make(map[int]*node.CPU, len(before.CPUs))
	for i := range before.CPUs {
		past[before.CPUs[i].Number] = &before.CPUs[i]
	}
	s.events = make([]rate, len(s.now.Events))
	for i := range s.events {
		s.events[i].value = nan
	}
	for i := range s.now.CPUs {
		c := &s.now.CPUs[i]
		b := past[c.Number]
		if b == nil {
			b = &node.CPU{}
		}
		all := make([]rate, len(s.now.Events))
		for e := range all {
			all[e] = perSecond(grown(readingAt(b.Readings, e), readingAt(c.Readings, e)), seconds)
			if s.now.Events[e].Reason != "" {
				all[e].value = nan
			}
			if sum := &s.events[e]; !isNaN(all[e].value) {
				if isNaN(sum.value) {
					sum.value = 0
				}
				sum.value, sum.scaled = sum.value+all[e].value, sum.scaled || all[e].scaled
			}
		}
		s.cpus = append(s.cpus, all)
	}
}

// readingAt returns a reading, or the zero one.
func readingAt(all []perfevent.Reading, event int) perfevent.Reading {
	if event < 0 || event >= len(all) {
		return perfevent.Reading{}
	}
	return all[event]
}

// grown returns how much a count grew, scaled up if the event was multiplexed. A count that fell began anew.
func grown(before, now perfevent.Reading) rate {
	if now.Value < before.Value || now.Enabled < before.Enabled || now.Running <= before.Running {
		return rate{value: nan}
	}
	d := now.Sub(before)
	return rate{float32(float64(d.Value) * float64(d.Enabled) / float64(d.Running)), d.Running < d.Enabled}
}

func between(before, now uint64) rate {
	if now < before {
		return rate{value: nan}
	}
	return rate{value: float32(now - before)}
}

// share returns the growth of a time in percent of the time that passed.
func share(before, now time.Duration, seconds float64) rate {
	if now < before || seconds <= 0 {
		return rate{value: nan}
	}
	return rate{value: float32((now - before).Seconds() / seconds * 100)}
}

func perSecond(r rate, seconds float64) rate {
	if seconds <= 0 {
		return rate{value: nan}
	}
	r.value /= float32(seconds)
	return r
}

// quotient returns factor * a / b.
func quotient(a, b rate, factor float32) rate {
	if !(b.value > 0) || isNaN(a.value) {
		return rate{value: nan}
	}
	return rate{factor * a.value / b.value, a.scaled || b.scaled}
}
