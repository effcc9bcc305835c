package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
)

// Tasks observes processes, threads or cgroups.
type Tasks struct {
	by       process.Key
	names    func(process.Sum) (name string, there bool)
	counter  *process.Counter
	counting io.Closer // makes the kernel measure the counter's own program; nil if it does not
	events   events
	own      own
	last     *process.Reading
	before   map[uint64]process.Sum // sums of last, by ID
	at       time.Time
}

// OpenTasks starts to observe all processes, threads or cgroups of the machine, and to count events.
func OpenTasks(by process.Key, list event.List) (*Tasks, error) {
	t := &Tasks{by: by, names: taskName, events: newEvents(list, "s")}
	if by == process.ByCgroup {
		t.names = cgroupName
	}
	var err error
	if t.counter, err = process.Open(list, by, process.Options{}); err != nil {
		return nil, err
	}
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tasks) begin() error {
	for i := range t.events.list {
		if err := t.counter.Err(i); err != nil {
			return err
		}
	}
	var err error
	if t.counting, err = kernel.CountRuns(); err != nil {
		t.counting = nil // needs Linux 5.8; without it the cost is unknown
	}
	if _, err := t.own.share(1); err != nil {
		return err
	}
	_, err = t.read()
	return err
}

// Close ends the observation.
func (t *Tasks) Close() error {
	if t.counting != nil {
		return errors.Join(t.counting.Close(), t.counter.Close())
	}
	return t.counter.Close()
}

// Subject returns "processes", "threads" or "cgroups".
func (t *Tasks) Subject() string {
	switch t.by {
	case process.ByCgroup:
		return "cgroups"
	case process.ByThread:
		return "threads"
	}
	return "processes"
}

// Columns returns the columns of processes, threads or cgroups.
func (t *Tasks) Columns() []Column { return taskColumns(t.by, t.events) }

func taskColumns(by process.Key, e events) []Column {
	columns := append([]Column{
		{"cpu", "c", "cpu %", Amount, 7, 0},
		{"switches", "w", "switches/s", Amount, 10, 44},
	}, e.columns(44)...)
	id := Column{"pid", "i", "pid", Number, 7, 30}
	switch by {
	case process.ByThread:
		id = Column{"tid", "i", "tid", Number, 7, 30}
	case process.ByCgroup:
		id = Column{"id", "i", "id", Number, 9, 60 + columns[len(columns)-1].From - 44}
	}
	return append(columns, id, Column{"name", "n", "name", Word, 0, 0})
}

// read reads the sums and returns the previous ones.
func (t *Tasks) read() (before map[uint64]process.Sum, err error) {
	now, err := t.counter.Read()
	if err != nil {
		return nil, err
	}
	before, t.last, t.at = t.before, now, time.Now()
	t.before = make(map[uint64]process.Sum, len(now.Sums))
	for _, s := range now.Sums {
		t.before[s.ID] = s
	}
	return before, nil
}

// Next returns what the processes, threads or cgroups did since the last call. It forgets those that are gone and did nothing since.
func (t *Tasks) Next(context.Context) (*Reading, error) {
	last, since := t.last, t.at
	before, err := t.read()
	if err != nil {
		return nil, err
	}
	var grown []named
	for _, s := range t.last.Sums {
		d := difference(s, before[s.ID])
		name, there := t.names(s)
		switch {
		case d.Time > 0:
			grown = append(grown, named{d, name})
		case !there:
			if err := t.counter.Forget(s.ID); err != nil {
				return nil, err
			}
			delete(t.before, s.ID)
		}
	}
	window := t.at.Sub(since)
	own, err := t.own.share(window)
	if err != nil {
		return nil, err
	}
	r := taskReading(grown, window, t.by, t.events)
	r.Time = t.at
	total := taskTotal{t.Subject(), len(t.last.Sums), t.last.LostTime - last.LostTime}
	r.Total = total.text(grown, window)
	r.Cost = fmt.Sprintf("bperf takes %s %% of a CPU; ", percent(own))
	if t.counting == nil {
		r.Cost += "what its program at each switch takes is not known"
		return r, nil
	}
	r.Cost += fmt.Sprintf("its program at each switch %s %%", percent(float64(t.last.ProgramTime-last.ProgramTime)/float64(window)))
	return r, nil
}

// named is what a process or cgroup did in an interval, with its name.
type named struct {
	process.Sum
	name string
}

// difference returns the increase of a sum. A sum that is smaller than before has started again from 0.
func difference(now, before process.Sum) process.Sum {
	if before.Readings == nil || now.Time < before.Time {
		return now
	}
	d := now
	d.Time, d.Switches = now.Time-before.Time, now.Switches-before.Switches
	d.Readings = nil
	for i, r := range now.Readings {
		d.Readings = append(d.Readings, r.Sub(before.Readings[i]))
	}
	return d
}

// taskReading returns the reading with a row for each process or cgroup.
func taskReading(grown []named, window time.Duration, by process.Key, e events) *Reading {
	r := &Reading{Window: window}
	for _, s := range grown {
		cells := []Cell{percentCell(float64(s.Time) / float64(window)), perSecondCell(s.Switches, window)}
		var readings [][]perfevent.Reading
		for _, one := range s.Readings {
			readings = append(readings, []perfevent.Reading{one})
		}
		cells = append(cells, e.cells(readings, window.Seconds())...)
		id := strconv.FormatUint(s.ID, 10)
		if by != process.ByCgroup && s.ID == process.Elsewhere {
			id = "-"
		}
		cells = append(cells, Cell{id, float64(s.ID)}, Cell{Text: s.name})
		r.Rows = append(r.Rows, Row{s.ID, s.name, cells})
	}
	return r
}

// taskTotal holds the values of all processes or cgroups together.
type taskTotal struct {
	subject string
	known   int // number of those that did something since the start and are not gone
	lost    time.Duration
}

// text describes in one line what they did together.
func (t taskTotal) text(grown []named, window time.Duration) string {
	var time time.Duration
	var switches uint64
	for _, s := range grown {
		time, switches = time+s.Time, switches+s.Switches
	}
	text := fmt.Sprintf("%d of %d %s ran, %s switches/s, %s %% of a CPU", len(grown), t.known, t.subject, perSecond(switches, window),
		percent(float64(time)/float64(window)))
	if t.lost > 0 {
		text += fmt.Sprintf("; there is no room for more: %s %% is of others", percent(float64(t.lost)/float64(window)))
	}
	return text
}

// taskName returns the present or last name of a process or thread, and whether it exists.
func taskName(s process.Sum) (string, bool) {
	if s.ID == process.Elsewhere {
		return "(processes of other PID namespaces)", true
	}
	comm, err := procfs.Comm(os.DirFS("/proc"), fmt.Sprint(s.ID))
	if err != nil {
		return s.Comm, !procfs.Ended(err)
	}
	return comm, true
}

func cgroupName(s process.Sum) (string, bool) {
	if name, _, ok := bpfprog.CgroupName(s.ID); ok {
		return name, true
	}
	return fmt.Sprintf("(cgroup %d, removed)", s.ID), false
}
