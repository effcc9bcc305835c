package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/program"
)

// selectPrograms finds the BPF programs of -b. Each item of the list must select one.
func selectPrograms(list string) ([]program.Target, error) {
	selector, err := bpfprog.Parse(list)
	if err != nil {
		return nil, &ExitError{Status: statusBadOption, Err: err}
	}
	r, err := bpfprog.NewReader(bpfprog.Detail{Functions: true})
	if err != nil {
		return nil, &ExitError{Status: 1, Err: err}
	}
	loaded, err := r.All()
	if err != nil {
		return nil, &ExitError{Status: 1, Err: err}
	}
	selected, missing := selector.Select(loaded, bpfprog.Machine{})
	if len(missing) > 0 {
		var errs []error
		for _, m := range missing {
			errs = append(errs, m)
		}
		return nil, &ExitError{Status: 1, Err: errors.Join(errs...)}
	}
	var targets []program.Target
	for _, p := range selected {
		t := program.Target{ID: p.ID, Name: p.Name, JITed: p.JITed > 0}
		if p.BTF != 0 && len(p.Functions) > 0 {
			t.Function = p.Functions[0].Name
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// programSubject names the programs, as far as a heading has room for them.
func programSubject(programs []program.Target) string {
	const room = 5
	var names []string
	for _, p := range programs[:min(len(programs), room)] {
		names = append(names, p.String())
	}
	what := "BPF program"
	if len(programs) > 1 {
		what += "s"
	}
	if n := len(programs) - room; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("'%s %s'", what, strings.Join(names, ", "))
}
