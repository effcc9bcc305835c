package bpfprog

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/kernel"
)

// Observer reads what the selected programs do, again and again, and lets the kernel count their runs meanwhile: of all programs,
// through a descriptor, so that this ends with the process (BPF_ENABLE_STATS, Linux 5.8).
type Observer struct {
	selector Selector
	reader   *Reader
	counting io.Closer
	last     map[uint32]Stats // of all programs, as one may be selected later: when it is attached somewhere
	at       time.Time
}

// Observation is what programs did since the last one.
type Observation struct {
	Time     time.Time // its end
	Window   time.Duration
	Programs []Observed // those that are selected and loaded at its end
	Runs     uint64     // of all programs that are loaded at its end, selected or not
}

// Observed is a program with what it did. Its Stats are those since it was loaded.
type Observed struct {
	*Program
	Use Use
}

// Observe begins to count. Items of the selector that select nothing now are returned: programs that come later may match.
func Observe(s Selector) (*Observer, []*NoMatchError, error) {
	reader, err := NewReader(Detail{})
	if err != nil {
		return nil, nil, err
	}
	o := &Observer{selector: s, reader: reader}
	if o.counting, err = enableStats(); err != nil {
		return nil, nil, err
	}
	all, err := o.read()
	if err != nil {
		o.Close()
		return nil, nil, err
	}
	_, missing := s.Select(all, Machine{})
	return o, missing, nil
}

// enableStats lets the kernel count the runs of programs until what it returns is closed.
func enableStats() (io.Closer, error) {
	on, err := kernel.CountRuns()
	if err != nil {
		return nil, statsError(err)
	}
	return on, nil
}

// statsError says why runs are not counted. A kernel that does not know the command says EINVAL.
func statsError(err error) error {
	why := remedy(err)
	if errors.Is(err, unix.EINVAL) {
		why = ". The kernel counts runs from Linux 5.8 on"
	}
	return fmt.Errorf("enable the statistics of program runs: %w%s", err, why)
}

// Next is what happened since the last Next, or since Observe. Programs that were loaded meanwhile are observed from then on; those
// that were unloaded are not there any more.
func (o *Observer) Next() (*Observation, error) {
	before, since := o.last, o.at
	all, err := o.read()
	if err != nil {
		return nil, err
	}
	next := &Observation{Time: o.at, Window: o.at.Sub(since)}
	for _, p := range all {
		next.Runs += p.Stats.since(before[p.ID]).Runs
	}
	selected, _ := o.selector.Select(all, Machine{})
	for _, p := range selected {
		use := Use{Stats: p.Stats.since(before[p.ID])}
		use.CPUs = float64(use.RunTime) / float64(next.Window)
		next.Programs = append(next.Programs, Observed{p, use})
	}
	return next, nil
}

func (o *Observer) read() ([]*Program, error) {
	o.at = time.Now()
	all, err := o.reader.all()
	o.last = make(map[uint32]Stats, len(all))
	for _, p := range all {
		o.last[p.ID] = p.Stats
	}
	return all, err
}

// Close ends counting.
func (o *Observer) Close() error { return o.counting.Close() }
