// Package top observes what uses the CPUs, interval by interval: BPF programs, processes or cgroups, optionally with events, or the
// functions that events are sampled in. A source returns a reading for each interval, with a row for each of them. The caller draws them.
package top

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
)

// Column is a column of a table.
type Column struct {
	Name  string // name by which the user selects it
	Key   string // key that sorts by it
	Title string
	Kind  Kind
	Width int // on a screen; 0 for the remaining width
	From  int // minimum width of a screen that shows it
}

// Kind is the kind of a column's values.
type Kind int

// The kinds, with their order: the largest amount, the lowest number, or the first word comes first.
const (
	Amount Kind = iota
	Number
	Word
	Trend // drawn, for screens only, and not sorted by
)

// Cell is the cell of a row in a column.
type Cell struct {
	Text  string  // others may have chosen it: it can contain control characters
	Value float64 // of an Amount or a Number, in the unit of the column's title; NaN if there is none
}

// Row is a BPF program, a process, a cgroup or a function.
type Row struct {
	ID    uint64
	Name  string // what a filter searches
	Cells []Cell // by column
}

// Reading is what was observed in an interval.
type Reading struct {
	Time   time.Time // end of the interval
	Window time.Duration
	Rows   []Row
	Total  string // one line on what they did together
	Cost   string // one line on the cost of the observation
}

// Source observes programs, processes, cgroups or functions.
type Source interface {
	// Subject returns the plural name of what is observed.
	Subject() string
	Columns() []Column
	// Next returns what happened since the last Next, or since the source was opened. It returns an error when the context is done, and io.EOF
	// when everything that is observed has ended.
	Next(context.Context) (*Reading, error)
	Close() error
}

// Order is an order of rows by the column with this index. Turned reverses it.
type Order struct {
	Column int
	Turned bool
}

// Sort sorts rows. Those without a value in the column come last. Rows that are equal in it are sorted by ID.
func (o Order) Sort(columns []Column, rows []Row) {
	kind := columns[o.Column].Kind
	slices.SortStableFunc(rows, func(a, b Row) int {
		x, y := &a.Cells[o.Column], &b.Cells[o.Column]
		var c int
		switch kind {
		case Amount:
			c = cmp.Compare(y.Value, x.Value)
		case Number:
			c = cmp.Compare(x.Value, y.Value)
		case Word:
			c = cmp.Compare(x.Text, y.Text)
		}
		if o.Turned {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.ID, b.ID))
	})
}

// own measures the CPU time of this process.
type own struct{ used time.Duration }

// share returns the number of CPUs that this process kept busy since the last call.
func (o *own) share(window time.Duration) (float64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	share := float64(used-o.used) / float64(window)
	o.used = used
	return share, nil
}

// nothing is the cell of what was not counted.
func nothing() Cell { return Cell{"-", math.NaN()} }

func perSecond(n uint64, window time.Duration) string {
	return fmt.Sprintf("%.1f", float64(n)/window.Seconds())
}

func perSecondCell(n uint64, window time.Duration) Cell {
	return Cell{perSecond(n, window), float64(n) / window.Seconds()}
}

// percent formats a number of CPUs in percent of one CPU.
func percent(cpus float64) string { return fmt.Sprintf("%.3f", 100*cpus) }

func percentCell(cpus float64) Cell { return Cell{percent(cpus), 100 * cpus} }
