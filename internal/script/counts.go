package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// countPrinter prints the counts of a recording of stat record, round by round.
type countPrinter struct {
	rounds *recorded.Rounds
	reader *perfdata.Reader
	w      io.Writer
	json   bool
	headed bool // the heading is printed
	err    error
}

func newCountPrinter(w io.Writer, reader *perfdata.Reader, json bool) *countPrinter {
	return &countPrinter{rounds: recorded.New(reader.Events, reader.EventByID), reader: reader, w: w, json: json}
}

// countJSON is a counter's value at the end of a round as JSON.
type countJSON struct {
	Event   string `json:"event"`      // its name
	CPU     int    `json:"cpu"`        // -1: any
	TID     int64  `json:"tid"`        // -1: all threads
	Value   uint64 `json:"value"`      // as it was counted
	Enabled uint64 `json:"enabled_ns"` // time in which the event was enabled
	Running uint64 `json:"running_ns"` // time in which it was counted
	Time    int64  `json:"time_ns"`    // end of the round
}

// add prints a round, if the record completes one. After an error it does nothing.
func (p *countPrinter) add(record *perfdata.Record) {
	if p.err != nil {
		return
	}
	round, err := p.rounds.Add(record)
	if err != nil {
		p.err = err
	}
	if round == nil {
		return
	}
	out := bufio.NewWriter(p.w) // keeps the first error
	encoder := printable.JSONEncoder(out)
	if !p.headed && !p.json {
		fmt.Fprintf(out, "%3s %8s %15s %15s %15s %15s %s\n", "CPU", "THREAD", "VAL", "ENA", "RUN", "TIME", "EVENT")
	}
	p.headed = true
	cells := round.Cells
	for _, e := range round.Idle {
		n := sort.Search(len(cells), func(i int) bool { return cells[i].Event > e })
		p.print(out, encoder, cells[:n], round.Time)
		p.print(out, encoder, p.nothing(e), round.Time)
		cells = cells[n:]
	}
	p.print(out, encoder, cells, round.Time)
	p.err = out.Flush()
}

// nothing returns the cells of an event without readings. Like perf, bperf prints them, too.
func (p *countPrinter) nothing(event int) (cells []count.Cell) {
	cpus := p.rounds.CPUs
	if len(cpus) == 0 {
		cpus = []int{count.None}
	}
	for thread := range max(1, len(p.rounds.Threads)) {
		for _, cpu := range cpus {
			cells = append(cells, count.Cell{Event: event, Thread: thread, CPU: cpu})
		}
	}
	return cells
}

// print prints a line for each cell.
func (p *countPrinter) print(out io.Writer, encoder *json.Encoder, cells []count.Cell, end time.Duration) {
	events := p.reader.Events()
	for i := range cells {
		c := &cells[i]
		v := countJSON{Event: events[c.Event].Name, CPU: c.CPU, TID: p.rounds.TID(c.Thread), Value: c.Value, Enabled: c.Enabled,
			Running: c.Running, Time: int64(end)}
		if p.json {
			encoder.Encode(v) // out keeps an error
		} else {
			fmt.Fprintf(out, "%3d %8d %15d %15d %15d %15d %s\n", v.CPU, v.TID, v.Value, v.Enabled, v.Running, v.Time, printable.Text(v.Event))
		}
	}
}
