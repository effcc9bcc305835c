package program

import (
	"context"
	"path"
	"slices"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/shared"
)

// Selection selects BPF programs to count.
type Selection struct {
	Programs  bpfprog.Selector
	Functions string // pattern of path.Match: count each function with such a name separately; empty for whole programs
}

// Find returns the selected programs that are loaded, and an error for each item of the selector that selects none.
func (s Selection) Find() ([]Target, []*bpfprog.NoMatchError, error) {
	loaded, err := bpfprog.ReadAll(bpfprog.Detail{Functions: true})
	if err != nil {
		return nil, nil, err
	}
	targets, missing := s.among(slices.DeleteFunc(loaded, s.sharing()))
	return targets, missing, nil
}

// sharing returns a predicate for the programs of shared counters that are not selected by their ID.
func (s Selection) sharing() func(*bpfprog.Program) bool {
	own := shared.Programs(shared.Dir)
	return func(p *bpfprog.Program) bool { return slices.Contains(own, p.ID) && !s.Programs.Names(p.ID) }
}

// among returns the selected ones of loaded programs. It selects probes only by their IDs. Otherwise two sessions that follow all
// programs would trace each other's probes without end.
func (s Selection) among(loaded []*bpfprog.Program) (targets []Target, missing []*bpfprog.NoMatchError) {
	selected, missing := s.Programs.Select(loaded, bpfprog.Machine{})
	for _, p := range selected {
		if !IsProbe(p) || s.Programs.Names(p.ID) {
			targets = append(targets, s.targetsOf(p)...)
		}
	}
	return targets, missing
}

// IsProbe reports whether a program belongs to this package: a probe, or a helper.
func IsProbe(p *bpfprog.Program) bool {
	switch p.Type.String() {
	case "tracing":
		return slices.Contains([]string{probesProgBperfEntry, probesProgBperfExit, referencesProgBperfRefs}, p.Name)
	case "raw_tracepoint":
		return p.Name == probesProgBperfRead
	}
	return p.Name == emptyName
}

// targetsOf returns the program as a target, or its functions that match.
func (s Selection) targetsOf(p *bpfprog.Program) (targets []Target) {
	whole := Target{ID: p.ID, Name: p.Name, Type: p.Type.String(), Tag: p.Tag, JITed: p.JITed > 0, ByID: s.Programs.Names(p.ID)}
	if s.Functions == "" {
		if p.BTF != 0 && len(p.Functions) > 0 {
			whole.Function = p.Functions[0].Name
		}
		return []Target{whole}
	}
	for i, f := range p.Functions {
		if ok, _ := path.Match(s.Functions, f.Name); !ok || f.Name == "" {
			continue
		}
		t := whole
		t.ByFunction, t.Sub = true, i > 0
		t.Function = f.Name
		targets = append(targets, t)
	}
	return targets
}

// Follow sends selected programs when they are loaded, until the context is done or an error occurs. Then it closes the channel, and wait
// returns the error. Follow misses programs that are selected by their attachment, because they are not yet attached; Find finds them later.
func (s Selection) Follow(ctx context.Context) (found <-chan []Target, wait func() error, err error) {
	watcher, err := bpfprog.NewWatcher()
	if err != nil {
		return nil, nil, err
	}
	targets, failed := make(chan []Target), make(chan error, 1)
	go func() {
		defer close(targets)
		defer watcher.Close()
		failed <- watcher.Run(ctx, func(c bpfprog.Change) {
			if c.Event != bpfprog.Loaded || c.Program == nil {
				return
			}
			p := *c.Program
			p.Functions = c.Functions
			if all, _ := s.among([]*bpfprog.Program{&p}); len(all) > 0 {
				select {
				case targets <- all:
				case <-ctx.Done():
				}
			}
		})
	}()
	return targets, func() error { return <-failed }, nil
}
