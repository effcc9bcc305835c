package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/userprog"
)

// addPrograms adds the flags for programs of the user's on samples.
func (o *recordOptions) addPrograms(f *pflag.FlagSet) {
	f.Var(eventFlag{&o.events, argProgram}, "prog",
		"run your own BPF program at each sample of the events before it, or before all events for all: `FILE.o`[:NAME], pinned:PATH or id:N; it drops the samples for which it returns 0")
	f.StringArrayVar(&o.set, "set", nil, "set a global variable of the objects of --prog: `NAME=VALUE`")
}

// readPrograms reads the programs of --prog; nil if there are none.
func (o *recordOptions) readPrograms() (*userprog.Programs, error) {
	var sources []string
	for _, a := range o.events {
		if a.kind == argProgram {
			sources = append(sources, a.value)
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
	return programs, nil
}

// mostMapRows is how many rows of a map are printed.
const mostMapRows = 30

// printMaps prints what the maps of programs have, the largest numbers first. Maps without entries are left out, and those that are shown otherwise.
func printMaps(w io.Writer, programs *userprog.Programs, shown []*userprog.Profile) error {
	all, err := programs.Maps()
	if err != nil {
		return err
	}
	for _, m := range all {
		isShown := slices.ContainsFunc(shown, func(p *userprog.Profile) bool { return p.Map == m.Name })
		if len(m.Rows) > 0 && !isShown {
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
