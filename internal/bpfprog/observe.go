package bpfprog

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/kernel"
)

// Observer repeatedly reads the statistics of the selected programs. While it is open, the kernel counts the runs of all programs. A
// descriptor enables that, so counting ends with the process (BPF_ENABLE_STATS, Linux 5.8).
type Observer struct {
	selector Selector
	reader   *Reader
	counting io.Closer
	last     map[uint32]Stats // of all programs, because one may be selected later, for example when it is attached
	at       time.Time
}

// Observation has what programs did since the previous Observation.
type Observation struct {
	Time     time.Time // end of the window
	Window   time.Duration
	Programs []Observed // selected programs that are loaded at the end
	Runs     uint64     // of all programs that are loaded at the end, selected or not
}

// Observed is a program and what it did in the window. Program.Stats count since the program was loaded.
type Observed struct {
	*Program
	Use Use
}

// Observe enables counting. It returns an error for each item of the selector that selects nothing now; programs that are loaded later may
// still match it.
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

// enableStats makes the kernel count the runs of programs until the result is closed.
func enableStats() (io.Closer, error) {
	on, err := kernel.CountRuns()
	if err != nil {
		return nil, statsError(err)
	}
	return on, nil
}

// statsError explains why counting cannot be enabled. A kernel without BPF_ENABLE_STATS returns EINVAL.
func statsError(err error) error {
	why := remedy(err)
	if errors.Is(err, unix.EINVAL) {
		why = ". The kernel counts runs from Linux 5.8 on"
	}
	return fmt.Errorf("enable the statistics of program runs: %w%s", err, why)
}

// Next returns what programs did since the last call of Next, or since Observe. Programs that were loaded in between are observed from their
// load on. Programs that were unloaded are left out.
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
	at := time.Now()
	all, err := o.reader.all()
	if err != nil {
		return nil, err
	}
	o.at, o.last = at, make(map[uint32]Stats, len(all))
	for _, p := range all {
		o.last[p.ID] = p.Stats
	}
	return all, nil
}

// Close disables counting.
func (o *Observer) Close() error { return o.counting.Close() }
