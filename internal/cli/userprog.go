package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/userprog"
)

// addPrograms adds the flags for programs of the user's on samples.
func (o *recordOptions) addPrograms(f *pflag.FlagSet) {
	f.Var(eventFlag{&o.events, argProgram}, "prog",
		"run your own BPF program at each sample of the events before it: `FILE.o`[:NAME], pinned:PATH or id:N; it drops the samples for which it returns 0")
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
	return programs, nil
}
