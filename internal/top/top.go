// Package top observes who takes the CPUs, interval by interval: BPF programs, processes or cgroups, with events where they are asked for. It
// makes rows of it; how they are drawn is not its business.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// Column is one of a table.
type Column struct {
	Name  string // by which it is asked for
	Key   string // that sorts by it
	Title string
	Kind  Kind
	Width int // on a screen; 0: what is left
	From  int // how wide a screen is at least that has it
}

// Kind is what a column has.
type Kind int

// The kinds, with their order: the largest amount, the lowest number, or the first word comes first.
const (
	Amount Kind = iota
	Number
	Word
)

// Cell is what a row has in a column.
type Cell struct {
	Text  string  // which others may have named: it can have control characters in it
	Value float64 // of an Amount or a Number, by which it is sorted
}

// Row is a BPF program, a process or a cgroup.
type Row struct {
	ID    uint64
	Name  string
	Cells []Cell // by column
}

// Reading is what was observed in an interval.
type Reading struct {
	Time   time.Time // its end
	Window time.Duration
	Rows   []Row
	Total  string // in a line, what they did together
	Cost   string // and what it cost to observe that
}

// Source observes.
type Source interface {
	// Subject names what is observed, in the plural.
	Subject() string
	Columns() []Column
	// Next is what happened since the last Next, or since it was opened.
	Next() (*Reading, error)
	Close() error
}

// Order is an order of rows.
type Order struct {
	Column int
	Turned bool
}

// Sort brings rows into the order. Those that are equal in the column are in that of their IDs.
func (o Order) Sort(columns []Column, rows []Row) {
	kind := columns[o.Column].Kind
	slices.SortFunc(rows, func(a, b Row) int {
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

// own measures this process.
type own struct{ used time.Duration }

// share is how many CPUs it kept busy since the last call.
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

func perSecond(n uint64, window time.Duration) string {
	return fmt.Sprintf("%.1f", float64(n)/window.Seconds())
}

// percent is a number of CPUs in percent of one.
func percent(cpus float64) string { return fmt.Sprintf("%.3f", 100*cpus) }
