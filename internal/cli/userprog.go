package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/userprog"
)

// addPrograms adds the flags for programs of the user's on samples.
func (o *recordOptions) addPrograms(f *pflag.FlagSet) {
	f.Var(eventFlag{&o.events, argProgram}, "prog",
		"run your own BPF program at each sample of the events before it, or before all events for all: `FILE.o`[:NAME], pinned:PATH or id:N; it drops the samples for which it returns 0")
	f.StringArrayVar(&o.set, "set", nil, "set a global variable of the objects of --prog: `NAME=VALUE`")
}

// readPrograms reads the programs that events name; nil if none does.
func (o *recordOptions) readPrograms(events event.List) (*userprog.Programs, error) {
	var sources []string
	for _, e := range events.Events() {
		if e.Program != "" {
			sources = append(sources, e.Program)
		}
	}
	if len(sources) == 0 {
		if len(o.set) > 0 {
			return nil, errors.New("--set is about the objects of --prog: give that")
		}
		return nil, nil
	}
	var assignments []userprog.Assignment
	for _, text := range o.set {
		a, err := userprog.ParseAssignment(text)
		if err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
		assignments = append(assignments, a)
	}
	programs, err := userprog.Read(sources, assignments, o.verbose)
	if err != nil {
		return nil, fmt.Errorf("--prog: %w", err)
	}
	if names := programs.RingBuffers(); len(names) > 0 {
		return nil, fmt.Errorf("--prog: bperf does not read ring buffers (the map %s): write through a map of type BPF_MAP_TYPE_PERF_EVENT_ARRAY",
			printable.Text(strings.Join(names, ", ")))
	}
	return programs, nil
}

// mostMapRows is how many rows of a map are printed.
const mostMapRows = 30

// printMaps prints what the maps of programs have, the largest numbers first. Maps without entries are left out.
func printMaps(w io.Writer, programs *userprog.Programs) error {
	all, err := programs.Maps()
	if err != nil {
		return err
	}
	for _, m := range all {
		if len(m.Rows) > 0 {
			printMap(w, &m)
		}
	}
	return nil
}

func printMap(w io.Writer, m *userprog.Map) {
	lines := [][]string{m.Columns}
	for _, row := range m.Rows[:min(mostMapRows, len(m.Rows))] {
		var line []string
		for _, cell := range row {
			line = append(line, printable.Text(fmt.Sprint(cell)))
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(m.Columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	fmt.Fprintf(w, "\nBPF map %s:\n", printable.Text(m.Name))
	for _, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(w, "  %*s", widths[i], cell)
		}
		fmt.Fprintln(w)
	}
	if more := len(m.Rows) - mostMapRows; m.Cut {
		fmt.Fprintf(w, "  and at least %d more\n", more)
	} else if more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
