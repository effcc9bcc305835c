package cli

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/stat"
)

// functionGlob returns the pattern of functions to count separately, or "" to count whole programs.
func (o *statOptions) functionGlob() string {
	if o.perFunction {
		return "*"
	}
	return o.functions
}

// selection returns the selection of -b.
func (o *statOptions) selection() (program.Selection, error) {
	s := program.Selection{Functions: o.functionGlob()}
	if _, err := path.Match(s.Functions, ""); err != nil {
		return s, fmt.Errorf("--bpf-func %s: %w", s.Functions, err)
	}
	var err error
	if s.Programs, err = bpfprog.Parse(o.programs); err != nil {
		return s, badOption(err)
	}
	return s, nil
}

// selectPrograms finds the BPF programs of -b, or their functions. Each item of the list must select one. With --follow only IDs must,
// because matching programs may be loaded later.
func (o *statOptions) selectPrograms(cfg *stat.Config) error {
	s, err := o.selection()
	if err != nil {
		return err
	}
	targets, missing, err := s.Find()
	if err != nil {
		return &exitError{Status: 1, Err: err}
	}
	var errs []error
	for _, m := range missing {
		if _, notID := strconv.ParseUint(m.Item, 10, 32); !o.follow || notID == nil {
			errs = append(errs, m)
		}
	}
	if len(errs) > 0 {
		return &exitError{Status: 1, Err: errors.Join(errs...)}
	}
	if len(targets) == 0 && !o.follow {
		return &exitError{Status: 1, Err: o.noTarget(s)}
	}
	cfg.Programs = targets
	cfg.Subject = programSubject(targets)
	if o.follow {
		cfg.Follow = &s
		cfg.Subject = fmt.Sprintf("'BPF programs %s'", o.programs)
	}
	return nil
}

// noTarget returns the error for a selection that leaves nothing to count.
func (o *statOptions) noTarget(s program.Selection) error {
	if s.Functions == "" {
		return fmt.Errorf("%q selects only programs that bperf itself counts with; select these by their IDs", o.programs)
	}
	return fmt.Errorf("no function of these BPF programs has a name that matches %q; `bperf prog show` lists them", s.Functions)
}

// programSubject returns the names of the programs, up to five of them.
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
