package cli

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/program"
)

// functionGlob is what the functions that are counted by themselves match; empty to count whole programs.
func (o *statOptions) functionGlob() string {
	if o.perFunction {
		return "*"
	}
	return o.functions
}

// selectPrograms finds the BPF programs of -b, or with a glob their functions. Each item of the list must select one.
func selectPrograms(list, functions string) ([]program.Target, error) {
	if _, err := path.Match(functions, ""); err != nil {
		return nil, fmt.Errorf("--bpf-func %s: %w", functions, err)
	}
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
		targets = append(targets, targetsOf(p, functions)...)
	}
	if len(targets) == 0 {
		return nil, &ExitError{Status: 1, Err: fmt.Errorf("no function of these BPF programs has a name that matches %q; `bperf prog show` lists them", functions)}
	}
	return targets, nil
}

// targetsOf is a program, or those of its functions that match.
func targetsOf(p *bpfprog.Program, functions string) (targets []program.Target) {
	whole := program.Target{ID: p.ID, Name: p.Name, JITed: p.JITed > 0}
	if functions == "" {
		if p.BTF != 0 && len(p.Functions) > 0 {
			whole.Function = p.Functions[0].Name
		}
		return []program.Target{whole}
	}
	for i, f := range p.Functions {
		if ok, _ := path.Match(functions, f.Name); !ok || f.Name == "" {
			continue
		}
		t := whole
		t.ByFunction, t.Sub = true, i > 0
		t.Function = f.Name
		targets = append(targets, t)
	}
	return targets
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
