package top

import (
	"fmt"
	"strconv"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// events are the columns of events, and a column of instructions per cycle if both are among them.
type events struct {
	list                 []*event.Event
	per                  string // divisor of a value: "run" or "s"
	pair                 bool   // list has cycles and instructions, with these indexes
	cycles, instructions int
}

func newEvents(list event.List, per string) events {
	e := events{list: list.Events(), per: per}
	for i, c := range e.list {
		for j, n := range e.list {
			if !e.pair && isHardware(c, hardwareCycles) && isHardware(n, hardwareInstructions) && sameModes(c, n) {
				e.pair, e.cycles, e.instructions = true, i, j
			}
		}
	}
	return e
}

// Numbers of enum perf_hw_id.
const (
	hardwareCycles       = 0
	hardwareInstructions = 1
)

func isHardware(e *event.Event, config uint64) bool {
	return e.Attr.Type == perfdata.TypeHardware && e.Attr.Config == config
}

// sameModes reports whether two events count in the same modes of the CPU.
func sameModes(a, b *event.Event) bool {
	const modes = perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV | perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest
	return a.Attr.Flags&modes == b.Attr.Flags&modes
}

// columns returns the columns for screens that are wider than from. Each column needs a wider screen than the one before.
func (e events) columns(from int) []Column {
	const width = 14
	var columns []Column
	add := func(name, title string) {
		n := len(columns) + 1
		c := Column{Name: name, Title: title, Width: width, From: from + n*(width+2)}
		if n <= 9 {
			c.Key = strconv.Itoa(n)
		}
		columns = append(columns, c)
	}
	for _, v := range e.list {
		title := v.Name
		if v.Unit != "" {
			title += " " + v.Unit
		}
		add(v.Name, title+"/"+e.per)
	}
	if e.pair {
		add("ipc", "IPC")
	}
	return columns
}

// cells returns the cells of a row: the readings of each event in the interval, divided by divisor. Without readings, a cell is "-".
func (e events) cells(readings [][]perfevent.Reading, divisor float64) []Cell {
	var cells []Cell
	var totals []count.Total
	for i, v := range e.list {
		var total count.Total
		if readings != nil {
			total = count.Sum(readings[i], false)
		}
		totals = append(totals, total)
		if !total.Counted() || divisor == 0 {
			cells = append(cells, nothing())
			continue
		}
		value := total.Value * v.Scale / divisor
		cells = append(cells, Cell{scaled(total.Scaled()) + amount(value), value})
	}
	if !e.pair {
		return cells
	}
	c, n := totals[e.cycles], totals[e.instructions]
	if c.Value == 0 {
		return append(cells, nothing())
	}
	ipc := n.Value / c.Value
	return append(cells, Cell{fmt.Sprintf("%s%.2f", scaled(c.Scaled() || n.Scaled()), ipc), ipc})
}

// scaled returns the mark of an estimate.
func scaled(is bool) string {
	if is {
		return "~"
	}
	return ""
}

// amount formats a number with four or more significant digits, or with one decimal if it is small.
func amount(v float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if v < 9999.5 {
			if v >= 999.95 {
				return fmt.Sprintf("%.0f%s", v, unit)
			}
			return fmt.Sprintf("%.*f%s", 1+min(len(unit), 1), v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3gP", v)
}
