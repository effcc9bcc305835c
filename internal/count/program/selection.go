package program

import (
	"context"
	"path"
	"slices"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/shared"
)

// Selection is which BPF programs are counted.
type Selection struct {
	Programs  bpfprog.Selector
	Functions string // pattern of path.Match: functions with such a name, each by itself; empty for whole programs
}

// Find finds those that are loaded, and the items of the selector that select none.
func (s Selection) Find() ([]Target, []*bpfprog.NoMatchError, error) {
	loaded, err := bpfprog.ReadAll(bpfprog.Detail{Functions: true})
	if err != nil {
		return nil, nil, err
	}
	targets, missing := s.among(slices.DeleteFunc(loaded, s.sharing()))
	return targets, missing, nil
}

// sharing returns what reports whether a program is one of those through which sessions share, and not named by its ID.
func (s Selection) sharing() func(*bpfprog.Program) bool {
	own := shared.Programs(shared.Dir)
	return func(p *bpfprog.Program) bool { return slices.Contains(own, p.ID) && !s.Programs.Names(p.ID) }
}

// among are those of loaded programs that are selected. The probes of sessions are only by their IDs: two sessions that follow all
// programs would trace each other's without end.
func (s Selection) among(loaded []*bpfprog.Program) (targets []Target, missing []*bpfprog.NoMatchError) {
	selected, missing := s.Programs.Select(loaded, bpfprog.Machine{})
	for _, p := range selected {
		if !isProbe(p) || s.Programs.Names(p.ID) {
			targets = append(targets, s.targetsOf(p)...)
		}
	}
	return targets, missing
}

// isProbe reports whether the program is one of those that count in others.
func isProbe(p *bpfprog.Program) bool {
	switch p.Type.String() {
	case "tracing":
		return slices.Contains([]string{probesProgBperfEntry, probesProgBperfExit, referencesProgBperfRefs}, p.Name)
	case "raw_tracepoint":
		return p.Name == probesProgBperfRead
	}
	return p.Name == emptyName
}

// targetsOf is a program, or those of its functions that match.
func (s Selection) targetsOf(p *bpfprog.Program) (targets []Target) {
	whole := Target{ID: p.ID, Name: p.Name, JITed: p.JITed > 0, ByID: s.Programs.Names(p.ID)}
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

// Follow hands over programs that are selected as they are loaded, until the context is done: then or on an error the channel is
// closed, and wait returns the error. A program that is selected by where it is attached is not yet attached then; Find finds it later.
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
