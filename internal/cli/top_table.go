package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
)

// topColumn is a column of programs.
type topColumn struct {
	name    string // by which it is asked for
	title   string
	align   byte // l or r
	compare func(a, b *bpfprog.Observed) int
	text    func(p *bpfprog.Observed, window time.Duration) string
}

// topColumns are all of them. What is more comes first of amounts.
var topColumns = []topColumn{
	{"cpu", "cpu %", 'r',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(b.Use.RunTime, a.Use.RunTime) },
		func(p *bpfprog.Observed, _ time.Duration) string { return fmt.Sprintf("%.3f", 100*p.Use.CPUs) }},
	{"runs", "runs/s", 'r',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(b.Use.Runs, a.Use.Runs) },
		func(p *bpfprog.Observed, window time.Duration) string { return perSecond(p.Use.Runs, window) }},
	{"ns", "ns/run", 'r',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(perRun(b), perRun(a)) },
		func(p *bpfprog.Observed, _ time.Duration) string {
			if p.Use.Runs == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f", perRun(p))
		}},
	{"id", "id", 'r',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(a.ID, b.ID) },
		func(p *bpfprog.Observed, _ time.Duration) string { return decimal(p.ID) }},
	{"type", "type", 'l',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(a.Type.String(), b.Type.String()) },
		func(p *bpfprog.Observed, _ time.Duration) string { return p.Type.String() }},
	{"name", "name", 'l',
		func(a, b *bpfprog.Observed) int { return cmp.Compare(a.Name, b.Name) },
		func(p *bpfprog.Observed, _ time.Duration) string { return printable(cmp.Or(p.Name, "-")) }},
}

// perRun is the mean run time in nanoseconds; 0 if it did not run.
func perRun(p *bpfprog.Observed) float64 {
	if p.Use.Runs == 0 {
		return 0
	}
	return float64(p.Use.RunTime) / float64(p.Use.Runs)
}

func perSecond(n uint64, window time.Duration) string {
	return fmt.Sprintf("%.1f", float64(n)/window.Seconds())
}

func topNames() []string {
	var names []string
	for _, c := range topColumns {
		names = append(names, c.name)
	}
	return names
}

func topIndex(name string) int { return slices.Index(topNames(), name) }

// topOrder is an order of programs. Those that are equal in the column are in that of their IDs.
type topOrder struct {
	column int
	turned bool
}

func (o topOrder) sort(programs []bpfprog.Observed) {
	compare := topColumns[o.column].compare
	slices.SortFunc(programs, func(a, b bpfprog.Observed) int {
		c := compare(&a, &b)
		if o.turned {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.ID, b.ID))
	})
}

// printTop prints a table for each interval, each with one write, until the context is done or there were enough.
func printTop(ctx context.Context, w io.Writer, next func() (*topReading, error), order topOrder, interval time.Duration, count int) error {
	return printIntervals(ctx, w, "the table", interval, count, func(b *bytes.Buffer, first bool) error {
		reading, err := next()
		if err != nil {
			return err
		}
		if !first {
			b.WriteByte('\n')
		}
		writeTop(b, reading, order)
		return nil
	})
}

func writeTop(b *bytes.Buffer, r *topReading, order topOrder) {
	fmt.Fprintf(b, "%s, %.3f s: %s\n%s\n", seconds(r.Time), r.Window.Seconds(), r.total(), r.costs())
	if len(r.Programs) == 0 {
		return
	}
	lines, alignment := [][]string{nil}, ""
	for _, c := range topColumns {
		lines[0] = append(lines[0], c.title)
		alignment += string(c.align)
	}
	order.sort(r.Programs)
	for i := range r.Programs {
		var line []string
		for _, c := range topColumns {
			line = append(line, c.text(&r.Programs[i], r.Window))
		}
		lines = append(lines, line)
	}
	for _, line := range alignColumns(alignment, lines) {
		b.WriteString(line + "\n")
	}
}

// total says in a line what the programs did together.
func (r *topReading) total() string {
	var runs uint64
	var cpus float64
	ran := 0
	for _, p := range r.Programs {
		runs, cpus = runs+p.Use.Runs, cpus+p.Use.CPUs
		if p.Use.Runs > 0 {
			ran++
		}
	}
	if len(r.Programs) == 0 {
		return "no such BPF program is loaded"
	}
	return fmt.Sprintf("%d of %d BPF programs ran, %s runs/s, %.3f %% of a CPU", ran, len(r.Programs), perSecond(runs, r.Window), 100*cpus)
}

// costs says in a line what it costs to observe: this process, and what counting adds to the runs of all programs.
func (r *topReading) costs() string {
	own := fmt.Sprintf("bperf takes %.3f %% of a CPU; ", 100*r.cost.own)
	switch {
	case r.cost.unknown:
		return own + "what counting adds to runs cannot be measured"
	case r.cost.perRun == 0:
		return own + "counting adds nothing that can be measured"
	}
	added := float64(r.Runs) * float64(r.cost.perRun) / float64(r.Window)
	return own + fmt.Sprintf("counting adds %d ns a run: %.3f %% of a CPU", r.cost.perRun.Nanoseconds(), 100*added)
}
