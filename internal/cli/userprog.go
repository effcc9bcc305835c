package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/userprog"
)

// addPrograms adds the flags for programs of the user's on samples.
func (o *recordOptions) addPrograms(f *pflag.FlagSet) {
	f.Var(eventFlag{&o.events, argProgram}, "prog",
		"run your own BPF program at each sample of the events before it, or before all events for all: `FILE.o`[:NAME], pinned:PATH or id:N; it drops the samples for which it returns 0")
	f.StringVar(&o.maps.format, "map-format", mapFormats[0], "print what the maps of --prog have at the end as `FORMAT`: "+strings.Join(mapFormats, ", "))
	f.StringVar(&o.maps.output, "map-output", "", "write it to `FILE`, not to standard error")
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
	if !slices.Contains(mapFormats, o.maps.format) {
		return nil, fmt.Errorf("--map-format %s: there are %s", o.maps.format, strings.Join(mapFormats, ", "))
	}
	if len(sources) == 0 {
		if len(o.set) > 0 {
			return nil, errors.New("--set is about the objects of --prog: give that")
		}
		if o.maps.output != "" || o.maps.format != mapFormats[0] {
			return nil, errors.New("--map-format and --map-output are about the maps of --prog: give that")
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
