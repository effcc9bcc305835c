package top

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
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
	targets  []program.Target

	mu   sync.Mutex // between Next and Distributions
	last []count.Cell
}

// Distribution is what an event counted in the single runs of a program since Programs was opened.
type Distribution struct {
	Event *event.Event
	Runs  count.Runs
}

// Distributions are those of a program, as the last Next has read them: one for each event; none where its events cannot be counted.
// It may be called while Next is.
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

// programCost is what it costs to observe programs.
type programCost struct {
	own      float64       // CPUs that this process kept busy
	perRun   time.Duration // that counting adds to each run of a program; 0 if it is too little to be measured
	unknown  bool          // perRun could not be measured
	untraced int           // programs in which no events can be counted, and
	why      error         // why, of the first
}

// OpenPrograms begins to observe the programs that are selected, and with a list of events to count these in the targets. Whatever keeps it
// from measuring what that costs, programs can be observed. Items of the selector that select nothing now are returned.
func OpenPrograms(s bpfprog.Selector, list event.List, targets func() ([]program.Target, error)) (*Programs, []*bpfprog.NoMatchError, error) {
	perRun, err := bpfprog.AddedByCounting()
	p := &Programs{cost: programCost{perRun: perRun, unknown: err != nil}, events: newEvents(list, "run")}
	observer, missing, err := bpfprog.Observe(s)
	if err != nil {
		return nil, nil, err
	}
	p.observer = observer
	if len(p.events.list) > 0 {
		if err := p.countIn(list, targets); err != nil {
			return nil, nil, errors.Join(err, p.Close())
		}
	}
	_, err = p.own.share(1)
	return p, missing, err
}

// tries is how often targets are looked for: one may be unloaded before it is opened.
const tries = 10

// countIn begins to count events in targets, if there are any.
func (p *Programs) countIn(list event.List, targets func() ([]program.Target, error)) error {
	for try := 1; ; try++ {
		var err error
		if p.targets, err = targets(); err != nil || len(p.targets) == 0 {
			return err
		}
		if err = p.count(list); try == tries || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// count begins to count events in the targets.
func (p *Programs) count(list event.List) error {
	machine, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return err
	}
	counter, err := program.Open(list, p.targets, machine, count.Options{})
	if err != nil {
		return err
	}
	p.counter = counter
	for i := range p.targets {
		var untraceable *program.Untraceable
		if err := p.counter.ErrAt(0, i); errors.As(err, &untraceable) {
			p.cost.untraced++
			p.cost.why = cmp.Or(p.cost.why, err)
		}
	}
	for i := range p.events.list {
		if err := p.counter.Err(i); err != nil && p.cost.untraced < len(p.targets) {
			return err
		}
	}
	if err := p.counter.Enable(); err != nil {
		return err
	}
	p.last, err = p.counter.Read(nil)
	return err
}

// Close ends it.
func (p *Programs) Close() error {
	if p.counter != nil {
		return errors.Join(p.counter.Close(), p.observer.Close())
	}
	return p.observer.Close()
}

// Subject names them.
func (p *Programs) Subject() string { return "programs" }

// Columns are those of programs.
func (p *Programs) Columns() []Column { return programColumns(p.events) }

func programColumns(e events) []Column {
	columns := []Column{
		{"cpu", "c", "cpu %", Amount, 7, 0},
		{"runs", "r", "runs/s", Amount, 9, 0},
		{"ns", "s", "ns/run", Amount, 9, 44},
	}
	columns = append(columns, e.columns(44)...)
	wider := columns[len(columns)-1].From - 44 // events go before what does not change
	return append(columns,
		Column{"id", "i", "id", Number, 7, 56 + wider},
		Column{"type", "t", "type", Word, 16, 76 + wider},
		Column{"name", "n", "name", Word, 0, 0})
}

// Next is what the programs did.
func (p *Programs) Next() (*Reading, error) {
	observation, err := p.observer.Next()
	if err != nil {
		return nil, err
	}
	counted, err := p.counted()
	if err != nil {
		return nil, err
	}
	cost := p.cost
	if cost.own, err = p.own.share(observation.Window); err != nil {
		return nil, err
	}
	return programReading(observation, cost, p.events, counted), nil
}

// inProgram is what was counted in the runs of a program.
type inProgram struct {
	runs     uint64                // that ended, and were not dropped
	readings [][]perfevent.Reading // by event
}

// counted is what was counted since the last call, by ID of the program.
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

// programReading makes rows.
func programReading(o *bpfprog.Observation, cost programCost, e events, counted map[uint32]*inProgram) *Reading {
	r := &Reading{Time: o.Time, Window: o.Window, Total: programTotal(o), Cost: cost.text(o)}
	for i := range o.Programs {
		p := &o.Programs[i]
		mean := Cell{Text: "-"}
		if p.Use.Runs > 0 {
			mean.Value = float64(p.Use.RunTime) / float64(p.Use.Runs)
			mean.Text = fmt.Sprintf("%.1f", mean.Value)
		}
		cells := []Cell{{percent(p.Use.CPUs), float64(p.Use.RunTime)}, {perSecond(p.Use.Runs, o.Window), float64(p.Use.Runs)}, mean}
		if in := counted[p.ID]; in != nil {
			cells = append(cells, e.cells(in.readings, float64(in.runs))...)
		} else {
			cells = append(cells, e.cells(nil, 0)...)
		}
		cells = append(cells, Cell{strconv.FormatUint(uint64(p.ID), 10), float64(p.ID)}, Cell{Text: p.Type.String()},
			Cell{Text: cmp.Or(p.Name, "-")})
		r.Rows = append(r.Rows, Row{uint64(p.ID), p.Name, cells})
	}
	return r
}

// programTotal says in a line what the programs did together.
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

// text says in a line what it costs to observe: this process, and what counting adds to the runs of all programs.
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
