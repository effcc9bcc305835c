package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// mostThreadCounts limits the cells of the table of report -T.
const mostThreadCounts = 1 << 20

// threadCounts are the counts of threads that record -s recorded when they ended: READ records.
type threadCounts struct {
	event   func(id uint64) *perfdata.Event
	threads []countedThread       // in the order of the recording
	events  []*perfdata.Event     // in the order of the recording
	rows    map[countedThread]int // index in threads
	columns map[int]int           // index in events, by Event.Index
	counts  map[[2]int]uint64     // by row and column
	most    int                   // cells
	leftOut uint64                // readings beyond most
}

type countedThread struct{ pid, tid int32 }

func newThreadCounts(event func(id uint64) *perfdata.Event) *threadCounts {
	return &threadCounts{event: event, rows: map[countedThread]int{}, columns: map[int]int{}, counts: map[[2]int]uint64{}, most: mostThreadCounts}
}

// add adds the counts of a READ record. Other records have none.
func (c *threadCounts) add(record *perfdata.Record) {
	read, is := record.Value.(*perfdata.Read)
	if !is {
		return
	}
	for _, reading := range read.Readings.Values {
		event := record.Event
		if read.Readings.Format&perfdata.ReadID != 0 {
			event = c.event(reading.ID)
		}
		if event != nil {
			c.count(read, event, reading.Value)
		}
	}
}

func (c *threadCounts) count(read *perfdata.Read, event *perfdata.Event, value uint64) {
	thread := countedThread{read.PID, read.TID}
	row, oldRow := c.rows[thread]
	column, oldColumn := c.columns[event.Index]
	if !oldRow {
		row = len(c.threads)
	}
	if !oldColumn {
		column = len(c.events)
	}
	if max(row+1, len(c.threads))*max(column+1, len(c.events)) > c.most {
		c.leftOut++
		return
	}
	if !oldRow {
		c.rows[thread], c.threads = row, append(c.threads, thread)
	}
	if !oldColumn {
		c.columns[event.Index], c.events = column, append(c.events, event)
	}
	c.counts[[2]int{row, column}] += value
}

// note prints what is missing from the table.
func (c *threadCounts) note(w io.Writer) {
	if c.leftOut > 0 {
		fmt.Fprintf(w, "%d counts of threads are left out: the table has room for %d\n", c.leftOut, c.most)
	}
}

// print prints perf's table.
func (c *threadCounts) print(w io.Writer) error {
	pid, tid := len("PID"), len("TID")
	for _, t := range c.threads {
		pid, tid = max(pid, len(strconv.Itoa(int(t.pid)))), max(tid, len(strconv.Itoa(int(t.tid))))
	}
	widths := make([]int, len(c.events))
	names := make([]string, len(c.events))
	for i, e := range c.events {
		names[i] = printable.Text(e.Name)
		widths[i] = utf8.RuneCountInString(names[i])
	}
	for at, n := range c.counts {
		widths[at[1]] = max(widths[at[1]], len(strconv.FormatUint(n, 10)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %*s  %*s", pid, "PID", tid, "TID")
	for i, name := range names {
		fmt.Fprintf(&b, "  %*s", widths[i], name)
	}
	b.WriteString("\n")
	for row, t := range c.threads {
		fmt.Fprintf(&b, "  %*d  %*d", pid, t.pid, tid, t.tid)
		for column, width := range widths {
			fmt.Fprintf(&b, "  %*d", width, c.counts[[2]int{row, column}])
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
