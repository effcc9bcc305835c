package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// margin is the indentation of every line of a call tree.
const margin = "            "

// callPrinter prints the call tree of a row.
type callPrinter struct {
	*textPrinter
	table  *table
	indent string // of the lines below the trunk
}

func (t *textPrinter) printCalls(table *table, r *row) {
	g := t.o.CallGraph
	if len(r.calls) == 0 {
		return
	}
	printer := &callPrinter{textPrinter: t, table: table}
	switch g.Mode {
	case Graph, Fractal:
		printer.printGraph(r.calls, table.whole(r, 0))
	case Flat:
		for _, stack := range printer.stacks(r) {
			fmt.Fprintf(t.w, "           %s\n", printer.value(stack.ending, table.base(0)))
			for _, name := range stack.names {
				fmt.Fprintf(t.w, "                %s\n", name)
			}
			t.w.WriteString("\n")
		}
	case Folded:
		separator := ";"
		if t.o.Separator != "" {
			separator = t.o.Separator
		}
		for _, stack := range printer.stacks(r) {
			fmt.Fprintf(t.w, "%s %s\n", printer.value(stack.ending, table.base(0)), strings.Join(stack.names, separator))
		}
	}
}

func (c *callPrinter) value(s sum, whole uint64) string { return callValue(c.o, s, whole) }

// callValue returns the text of a branch's value.
func callValue(o *Options, s sum, whole uint64) string {
	switch o.CallGraph.Value {
	case Period:
		return strconv.FormatUint(s.value, 10)
	case Count:
		return strconv.FormatUint(s.samples, 10)
	}
	return fmt.Sprintf("%.2f%%", percent(s.value, whole))
}

func (c *callPrinter) name(id profile.FrameID) string {
	f := c.p.Frames()[id]
	return printable.Text(frameName(c.p, &f))
}

// printGraph prints a tree. A branch that contains all samples of the row is the trunk: it is printed at the margin, without a value.
func (c *callPrinter) printGraph(calls []*branch, whole uint64) {
	base := c.table.base(0)
	if c.o.CallGraph.Mode == Fractal {
		base = whole
	}
	trunk := false
	if len(calls) == 1 && calls[0].value == whole {
		trunk = c.printTrunk(calls[0])
		calls = calls[0].calls
	}
	c.printBranches(calls, base, []bool{true})
	if trunk || len(calls) > 0 {
		c.w.WriteString("\n")
	}
}

// printTrunk prints the frames that all samples share. It reports whether it printed any.
func (c *callPrinter) printTrunk(b *branch) bool {
	frames := b.frames
	if len(c.o.Fields) == 0 && len(c.o.Sort) > 0 && strings.HasPrefix(c.o.Sort[0], "sym") {
		frames = frames[1:] // the row already shows the first frame
	}
	for i, f := range frames {
		if c.o.CallGraph.Lines > 0 && i == c.o.CallGraph.Lines {
			break
		}
		if i == 0 {
			c.w.WriteString(margin + "|\n" + margin + "---")
			c.indent = "   "
		} else {
			c.w.WriteString(margin + c.indent)
		}
		c.w.WriteString(c.name(f) + "\n")
	}
	return len(frames) > 0
}

// printBranches prints the branches of one level. bars has an entry for each level: whether its vertical line continues.
func (c *callPrinter) printBranches(calls []*branch, base uint64, bars []bool) {
	level := len(bars) - 1
	below := slices.Clone(bars)
	left := sum{value: base}
	for i, b := range calls {
		left.value -= min(left.value, b.value)
		rest := c.o.CallGraph.Mode == Fractal && left.value > 0
		if i == len(calls)-1 && !rest {
			below[level] = false
		}
		c.printEntry(bars, "", "")
		for j, f := range b.frames {
			value := ""
			if j == 0 {
				value = "--" + c.value(b.sum, base) + "--"
			}
			c.printEntry(below, value, c.name(f))
		}
		next := base
		if c.o.CallGraph.Mode == Fractal {
			next = b.value - b.ending.value
		}
		c.printBranches(b.calls, next, append(slices.Clone(below), true))
		if c.o.CallGraph.Lines > 0 && i+1 == c.o.CallGraph.Lines {
			break
		}
	}
	if c.o.CallGraph.Mode == Fractal && left.value > 0 && left.value != base {
		below[level] = false
		c.printEntry(below, "--"+c.value(left, base)+"--", "[...]")
	}
}

// printEntry prints a line: the vertical lines that continue, and one frame of a branch. Only the first frame has a value.
func (c *callPrinter) printEntry(bars []bool, value, name string) {
	c.w.WriteString(margin + c.indent)
	for i, bar := range bars {
		if bar {
			c.w.WriteString("|")
		} else {
			c.w.WriteString(" ")
		}
		if value != "" && i == len(bars)-1 {
			c.w.WriteString(value)
		} else {
			c.w.WriteString("          ")
		}
	}
	c.w.WriteString(name + "\n")
}

// listed is a whole stack of a row, with the sum of the samples that end there.
type listed struct {
	names  []string
	ending sum
}

// stacks returns the stacks of a row, the largest value first.
func (c *callPrinter) stacks(r *row) []listed {
	smallest := uint64(float64(c.table.totals[0].stacked) * (c.o.CallGraph.Limit / 100))
	var all []listed
	var collect func(b *branch, above []string)
	collect = func(b *branch, above []string) {
		names := slices.Clone(above)
		for _, f := range b.frames {
			names = append(names, c.name(f))
		}
		for _, call := range b.calls {
			collect(call, names)
		}
		if b.ending.value > 0 && b.ending.value >= smallest {
			all = append(all, listed{names, b.ending})
		}
	}
	for _, b := range r.calls {
		collect(b, nil)
	}
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Compare(b.ending.value, a.ending.value) })
	if c.o.CallGraph.Lines > 0 {
		all = all[:min(len(all), c.o.CallGraph.Lines)]
	}
	return all
}
