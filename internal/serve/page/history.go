package page

import (
	"math"
	"unsafe"
)

// The size of the history: ten minutes of at most mostTracks containers.
const (
	points     = 60
	mostTracks = 256
)

// line has the values of the last points steps as a ring. NaN means that there is no value.
type line [points]float32

// newLine returns a line without values.
func newLine() *line {
	l := new(line)
	for i := range l {
		l[i] = nan
	}
	return l
}

// rates are the values of a container in a step.
type rates [measures]rate

// rate is a value per step or per second; NaN if there is none.
type rate struct {
	value  float32
	scaled bool // an event of it was multiplexed
}

// measure is a column of the table of containers.
type measure int

const (
	cpuTime  measure = iota // percent of a CPU
	runnable                // these three: percent of a thread's time
	blocked
	sleeping
	ipc          // instructions per cycle
	misses       // cache misses per 1000 instructions
	switches     // per second
	faults       // page faults per second
	measures int = iota
)

// track is the history of a container.
type track [measures]line

// history has the past values of the daemon, the containers, and the events of all CPUs. Its memory is bounded: that of the containers by
// mostTracks, that of the events by those of the configuration.
type history struct {
	next   int // where the next step goes
	own    *line
	events []*line
	tracks map[uint64]*track // by ID of the container's cgroup
}

func newHistory(events int) *history {
	h := &history{own: newLine(), tracks: map[uint64]*track{}}
	for range events {
		h.events = append(h.events, newLine())
	}
	return h
}

// bytes returns the memory of the history, without what Go's map adds.
func (h *history) bytes() int {
	const each = int(unsafe.Sizeof(line{}))
	return each * (1 + len(h.events) + len(h.tracks)*measures)
}

// add adds a step. Containers that are gone are forgotten. If there are too many, the first ones of the step, in the order of rows, have
// a history, beside those that have one already.
func (h *history) add(s *step) {
	h.own[h.next] = s.own.value
	for i, l := range h.events {
		l[h.next] = s.events[i].value
	}
	present := make(map[uint64]*row, len(s.rows))
	for i := range s.rows {
		present[s.rows[i].Cgroup] = &s.rows[i]
	}
	for id := range h.tracks {
		if present[id] == nil {
			delete(h.tracks, id)
		}
	}
	for i := range s.rows {
		r := &s.rows[i]
		t := h.tracks[r.Cgroup]
		if t == nil {
			if len(h.tracks) == mostTracks {
				continue
			}
			t = new(track)
			for m := range t {
				t[m] = *newLine()
			}
			h.tracks[r.Cgroup] = t
		}
		for m := range t {
			t[m][h.next] = r.rates[m].value
		}
	}
	h.next = (h.next + 1) % points
}

// at returns the value of a line, of which 0 is the oldest.
func (h *history) at(l *line, i int) float32 { return l[(h.next+i)%points] }

var (
	nan     = float32(math.NaN())
	noRates = rates{{value: nan}, {value: nan}, {value: nan}, {value: nan}, {value: nan}, {value: nan}, {value: nan}, {value: nan}}
)

func isNaN(f float32) bool { return f != f }
