package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Programs observes BPF programs.
type Programs struct {
	observer *bpfprog.Observer
	cost     programCost
	own      own
	events   events
	counter  *program.Counter // nil without events
	wanted   program.Selection
	known    map[uint32]bool // selected programs; their events are counted as far as possible

	mu      sync.Mutex // protects the following between Next, and Distributions and Past
	targets []program.Target
	last    []count.Cell
	past    map[uint32]*past // by ID
}

// Distribution is what an event counted in the single runs of a program since Programs was opened.
type Distribution struct {
	Event *event.Event
	Runs  count.Runs
}

// Distributions returns the distributions of a program from the last Next: one for each event, or none if the program's events cannot be
// counted. It may be called while Next is running.
func (p *Programs) Distributions(id uint64) []Distribution {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Distribution
	for _, c := range p.last {
		if uint64(p.targets[c.Program].ID) != id || c.Event >= len(p.events.list) || c.Runs == nil {
			continue
		}
		e := p.events.list[c.Event]
		if n := len(all); n == 0 || all[n-1].Event != e { // cells are in the order of events
			all = append(all, Distribution{Event: e})
		}
		all[len(all)-1].Runs.Add(c.Runs)
	}
	return all
}

// programCost is the cost of observing programs.
type programCost struct {
	own      float64       // CPUs that this process kept busy
	perRun   time.Duration // what counting adds to each run of a program; 0 if it is too little to measure
	unknown  bool          // perRun could not be measured
	untraced int           // number of programs in which no events can be counted
	why      error         // reason for the first of them
}

// OpenPrograms starts to observe the selected programs and to count the events of the list in them. It does not fail if the cost of that
// cannot be measured. It also returns the items of the selector that select nothing now.
func OpenPrograms(s bpfprog.Selector, list event.List) (*Programs, []*bpfprog.NoMatchError, error) {
	perRun, err := bpfprog.AddedByCounting()
	p := &Programs{cost: programCost{perRun: perRun, unknown: err != nil}, events: newEvents(list, "run"),
		wanted: program.Selection{Programs: s}, known: make(map[uint32]bool)}
	observer, missing, err := bpfprog.Observe(s)
	if err != nil {
		return nil, nil, err
	}
	p.observer = observer
	if len(p.events.list) > 0 {
		if err := p.count(list); err != nil {
			return nil, nil, errors.Join(err, p.Close())
		}
	}
	_, err = p.own.share(1)
	return p, missing, err
}

// count starts to count events.
func (p *Programs) count(list event.List) error {
	targets, _, err := p.wanted.Find()
	if err != nil {
		return err
	}
	machine, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return err
	}
	if p.counter, err = program.Open(list, targets, machine, program.Options{Following: true, Sharing: program.Sharing{Dir: shared.Dir}}); err != nil {
		return err
	}
	p.look()
	for i := range p.events.list {
		if err := p.counter.Err(i); err != nil && (len(p.targets) == 0 || p.cost.untraced < len(p.targets)) {
			return err
		}
	}
	for _, t := range targets {
		p.known[t.ID] = true
	}
	if err := p.counter.Enable(); err != nil {
		return err
	}
	p.last, err = p.counter.Read(nil)
	return err
}

// look determines in which programs events are counted.
func (p *Programs) look() {
	p.targets, p.cost.untraced, p.cost.why = p.counter.Targets(), 0, nil
	for i := range p.targets {
		var untraceable *program.Untraceable
		if err := p.counter.ErrAt(0, i); errors.As(err, &untraceable) {
			p.cost.untraced++
			p.cost.why = cmp.Or(p.cost.why, err)
		}
	}
}

// follow starts to count in programs that are observed for the first time, and stops in those that are gone. Counting in a program keeps it
// loaded. follow therefore detaches from programs that nobody else needs; these are gone in the next interval.
func (p *Programs) follow(o *bpfprog.Observation) error {
	loaded := make(map[uint32]bool, len(o.Programs))
	added := false
	for i := range o.Programs {
		id := o.Programs[i].ID
		loaded[id] = true
		added = added || !p.known[id]
	}
	p.known = loaded
	if added {
		targets, _, err := p.wanted.Find()
		if err != nil {
			return err
		}
		if added, err = p.counter.Add(targets); err != nil {
			return err
		}
	}
	forgotten, err := p.counter.Forget(func(t program.Target) bool { return !loaded[t.ID] })
	if err != nil {
		return err
	}
	if added || forgotten {
		if err := p.align(); err != nil {
			return err
		}
	}
	if p.cost.untraced == len(p.targets) {
		return nil
	}
	return p.counter.LetGo()
}

// align brings the last readings into the order of the next ones. The last readings of new cells are 0.
func (p *Programs) align() error {
	cells, err := p.counter.Read(nil)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	type cellKey struct {
		program    uint32
		event, cpu int
	}
	last := make(map[cellKey]count.Cell, len(p.last))
	for _, c := range p.last {
		last[cellKey{p.targets[c.Program].ID, c.Event, c.CPU}] = c
	}
	p.look()
	for i, c := range cells {
		cells[i] = last[cellKey{p.targets[c.Program].ID, c.Event, c.CPU}]
		cells[i].Program, cells[i].Event, cells[i].CPU = c.Program, c.Event, c.CPU
	}
	p.last = cells
	return nil
}

// Close ends the observation.
func (p *Programs) Close() error {
	if p.counter != nil {
		return errors.Join(p.counter.Close(), p.observer.Close())
	}
	return p.observer.Close()
}

// Subject returns "programs".
func (p *Programs) Subject() string { return "programs" }

// Columns returns the columns of programs.
func (p *Programs) Columns() []Column { return programColumns(p.events) }

func programColumns(e events) []Column {
	columns := []Column{
		{"cpu", "c", "cpu %", Amount, 7, 0},
		{"runs", "r", "runs/s", Amount, 9, 0},
		{"ns", "s", "ns/run", Amount, 9, 44},
	}
	columns = append(columns, e.columns(44)...)
	wider := columns[len(columns)-1].From - 44 // columns of events precede those that do not change
	return append(columns,
		Column{"id", "i", "id", Number, 7, 56 + wider},
		Column{"type", "t", "type", Word, 16, 76 + wider},
		Column{"last", "", "last", Trend, historyLength, 98 + wider},
		Column{"name", "n", "name", Word, 0, 0})
}

// Next returns what the programs did since the last call.
func (p *Programs) Next(context.Context) (*Reading, error) {
	observation, err := p.observer.Next()
	if err != nil {
		return nil, err
	}
	counted, err := p.counted()
	if err != nil {
		return nil, err
	}
	if p.counter != nil {
		if err := p.follow(observation); err != nil {
			return nil, err
		}
	}
	cost := p.cost
	if cost.own, err = p.own.share(observation.Window); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = remember(p.past, observation)
	return programReading(observation, cost, p.events, counted, p.past), nil
}

// inProgram holds the counts in the runs of a program.
type inProgram struct {
	runs     uint64                // runs that ended and were not dropped
	readings [][]perfevent.Reading // by event
}

// counted returns the counts since the last call, by ID of the program.
func (p *Programs) counted() (map[uint32]*inProgram, error) {
	if p.counter == nil {
		return nil, nil
	}
	cells, err := p.counter.Read(nil)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.events.list)
	all := make(map[uint32]*inProgram)
	for i, c := range cells {
		id := p.targets[c.Program].ID
		in := all[id]
		if in == nil {
			in = &inProgram{readings: make([][]perfevent.Reading, n)}
			all[id] = in
		}
		var since perfevent.Reading
		if i < len(p.last) {
			since = p.last[i].Reading
		}
		r := c.Reading.Sub(since)
		switch {
		case c.Event < n:
			in.readings[c.Event] = append(in.readings[c.Event], r)
		case program.OwnEvents()[c.Event-n].Name == program.Runs:
			in.runs += r.Value
		case program.OwnEvents()[c.Event-n].Name == program.Dropped:
			in.runs -= r.Value
		}
	}
	p.last = cells
	return all, nil
}

// programReading returns the reading with a row for each program.
func programReading(o *bpfprog.Observation, cost programCost, e events, counted map[uint32]*inProgram, pasts map[uint32]*past) *Reading {
	r := &Reading{Time: o.Time, Window: o.Window, Total: programTotal(o), Cost: cost.text(o)}
	for i := range o.Programs {
		p := &o.Programs[i]
		mean := nothing()
		if p.Use.Runs > 0 {
			mean.Value = float64(p.Use.RunTime) / float64(p.Use.Runs)
			mean.Text = fmt.Sprintf("%.1f", mean.Value)
		}
		cells := []Cell{percentCell(p.Use.CPUs), perSecondCell(p.Use.Runs, o.Window), mean}
		if in := counted[p.ID]; in != nil {
			cells = append(cells, e.cells(in.readings, float64(in.runs))...)
		} else {
			cells = append(cells, e.cells(nil, 0)...)
		}
		trend := Cell{}
		if past := pasts[p.ID]; past != nil {
			trend.Text = bars(past.cpus[max(0, len(past.cpus)-historyLength):])
		}
		cells = append(cells, Cell{strconv.FormatUint(uint64(p.ID), 10), float64(p.ID)}, Cell{Text: p.Type.String()}, trend,
			Cell{Text: cmp.Or(p.Name, "-")})
		r.Rows = append(r.Rows, Row{uint64(p.ID), p.Name, cells})
	}
	return r
}

// programTotal describes in one line what the programs did together.
func programTotal(o *bpfprog.Observation) string {
	var runs uint64
	var cpus float64
	ran := 0
	for _, p := range o.Programs {
		runs, cpus = runs+p.Use.Runs, cpus+p.Use.CPUs
		if p.Use.Runs > 0 {
			ran++
		}
	}
	if len(o.Programs) == 0 {
		return "no such BPF program is loaded"
	}
	return fmt.Sprintf("%d of %d BPF programs ran, %s runs/s, %s %% of a CPU", ran, len(o.Programs), perSecond(runs, o.Window), percent(cpus))
}

// text describes the cost of the observation in one line: of this process, and of counting in the runs of all programs.
func (c programCost) text(o *bpfprog.Observation) string {
	text := fmt.Sprintf("bperf takes %s %% of a CPU; ", percent(c.own))
	switch {
	case c.unknown:
		text += "what counting adds to runs cannot be measured"
	case c.perRun == 0:
		text += "counting adds nothing that can be measured"
	default:
		added := float64(o.Runs) * float64(c.perRun) / float64(o.Window)
		text += fmt.Sprintf("counting adds %d ns a run: %s %% of a CPU", c.perRun.Nanoseconds(), percent(added))
	}
	if c.untraced > 0 {
		text += fmt.Sprintf("; no events in %d programs: %v", c.untraced, c.why)
	}
	return text
}
