package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/target"
)

// Inside says in which BPF programs to count, and what besides their run times. It makes each of their runs slower.
type Inside struct {
	Programs string   // in the syntax of bpfprog.Parse; "" for none
	Events   []string // in perf's syntax, each string one event or a list
}

// InProgram has the counts inside a BPF program.
type InProgram struct {
	ID   uint32
	Name string
	Type string
	Tag  string

	Runs     uint64              // that ended
	Dropped  uint64              // runs that are not in the counts
	Times    count.Runs          // run times in ns, of the runs that are not dropped
	Time     uint64              // their sum in ns
	Readings []perfevent.Reading // by event of Snapshot.InsideEvents; those of an event with a reason mean nothing
}

// runTime is the event whose counts are the run times of programs: it counts nanoseconds.
const runTime = "cpu-clock"

// insidePoll is the time between two looks for programs that were loaded or unloaded.
const insidePoll = 5 * time.Second

// inside counts inside BPF programs. Its methods may be called at the same time.
type inside struct {
	wanted program.Selection
	times  event.List // runTime, which is counted before the events
	events events
	share  string

	mu      sync.Mutex
	counter *program.Counter // nil while nothing is counted
	off     bool             // given up to keep the budget
	failed  error            // of the last look
}

// newInside returns an inside that counts nothing yet, or nil if the configuration asks for nothing.
func newInside(machine *event.Machine, config Inside, share string) (*inside, error) {
	if config.Programs == "" {
		return nil, nil
	}
	programs, err := bpfprog.Parse(config.Programs)
	if err != nil {
		return nil, err
	}
	times, err := machine.Parse(runTime)
	if err != nil {
		return nil, err
	}
	all := parseEvents(machine, config.Events, func(*event.Event, int) string { return "" })
	return &inside{wanted: program.Selection{Programs: programs}, times: times, events: all, share: share}, nil
}

// follow counts in the programs that are loaded, until the context ends.
func (in *inside) follow(ctx context.Context) {
	for {
		in.mu.Lock()
		if !in.off {
			in.failed = in.look()
		}
		in.mu.Unlock()
		if !wait(ctx, insidePoll) {
			return
		}
	}
}

// look begins to count in selected programs that were loaded, and ends with those that were unloaded. Counting in a program keeps it loaded,
// so look detaches from programs that nobody else needs: these are gone at the next look.
func (in *inside) look() error {
	targets, _, err := in.wanted.Find()
	if err != nil {
		return err
	}
	if in.counter == nil {
		return in.open(targets)
	}
	if _, err := in.counter.Add(targets); err != nil {
		return err
	}
	loaded := make(map[uint32]bool, len(targets))
	for _, t := range targets {
		loaded[t.ID] = true
	}
	if _, err := in.counter.Forget(func(t program.Target) bool { return !loaded[t.ID] }); err != nil {
		return err
	}
	return in.counter.LetGo()
}

// open begins to count.
func (in *inside) open(targets []program.Target) error {
	machine, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return err
	}
	counter, err := program.Open(slices.Concat(in.times, in.events.list), targets, machine, program.Options{Following: true, Sharing: program.Sharing{Dir: in.share}, Calibrate: true})
	if err != nil {
		return err
	}
	if err := counter.Enable(); err != nil {
		return errors.Join(err, counter.Close())
	}
	in.counter = counter
	return nil
}

// give gives up counting inside programs, or takes it up again at the next look.
func (in *inside) give(up bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.off = up
	if !up || in.counter == nil {
		return nil
	}
	err := in.counter.Close()
	in.counter = nil
	return err
}

// close ends counting. follow must have ended.
func (in *inside) close() error {
	if in.counter == nil {
		return nil
	}
	return in.counter.Close()
}

// read adds the counts to a snapshot, or why there are none.
func (in *inside) read(s *Snapshot) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	s.Inside, s.InsideEvents = []InProgram{}, in.events.all
	switch {
	case in.off:
		s.NoInside = GivenUp
		return nil
	case in.failed != nil:
		s.NoInside = in.failed.Error()
		return nil
	case in.counter == nil:
		s.NoInside = "counting has not begun yet"
		return nil
	}
	cells, err := in.counter.Read(nil)
	if err != nil {
		return err
	}
	s.InsideEvents = in.reasons()
	targets := in.counter.Targets()
	all := make([]InProgram, len(targets))
	for i, t := range targets {
		all[i] = InProgram{ID: t.ID, Name: printable.Text(t.Name), Type: t.Type, Tag: t.Tag, Readings: make([]perfevent.Reading, len(in.events.all))}
	}
	for i := range cells {
		in.add(&all[cells[i].Program], &cells[i])
	}
	for i := range targets {
		if err := in.counter.ErrAt(0, i); err != nil {
			s.NoInside = err.Error()
			continue
		}
		s.Inside = append(s.Inside, all[i])
	}
	return nil
}

// reasons returns the events, with the reasons of those that cannot be counted.
func (in *inside) reasons() []Event {
	all := slices.Clone(in.events.all)
	for i, at := range in.events.at {
		if err := in.counter.Err(i + 1); err != nil {
			all[at].Reason = printable.Text(err.Error())
		}
	}
	return all
}

// add adds the counts of a CPU.
func (in *inside) add(p *InProgram, c *count.Cell) {
	switch own := c.Event - 1 - len(in.events.list); {
	case own >= 0:
		switch program.OwnEvents()[own].Name {
		case program.Runs:
			p.Runs += c.Value
		case program.Dropped:
			p.Dropped += c.Value
		}
	case c.Event == 0:
		p.Time += c.Value
		if c.Runs != nil {
			p.Times.Add(c.Runs)
		}
	default:
		r := &p.Readings[in.events.at[c.Event-1]]
		r.Value, r.Enabled, r.Running = r.Value+c.Value, r.Enabled+c.Enabled, r.Running+c.Running
	}
}
