package program

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/bpfprog"
)

// Targets returns the programs that are counted, in the order of their indexes in cells.
func (c *Counter) Targets() (all []Target) {
	for _, s := range c.programs {
		all = append(all, s.Target)
	}
	return all
}

// Add counts more programs and reports whether it added any. It skips programs that are already counted, and those that have been
// unloaded if that is no error.
func (c *Counter) Add(programs []Target) (added bool, err error) {
	for _, t := range programs {
		if slices.ContainsFunc(c.programs, func(s *subject) bool { return s.ID == t.ID && s.Function == t.Function }) {
			continue
		}
		s, err := c.add(t)
		if err != nil {
			return added, err
		}
		if s == nil {
			continue
		}
		added = true
		if c.enabled.IsZero() {
			continue
		}
		if err := c.begin([]*subject{s}); err != nil {
			return added, err
		}
	}
	return added, nil
}

// LetGo ends counting in programs to which only tracing programs have references, so that the kernel can unload them. Their counts
// stay.
func (c *Counter) LetGo() error {
	loaded, err := bpfprog.ReadAll(bpfprog.Detail{})
	if err != nil {
		return err
	}
	counts, err := c.countReferences()
	if err != nil {
		return err
	}
	tracers, err := bpfprog.Tracers(loaded)
	if err != nil {
		return err
	}
	var unused []*subject
	for _, s := range c.programs {
		switch {
		case s.kernel != nil:
			if _, err := s.kernel.read(); err != nil { // perhaps the last chance to read
				return err
			}
		case s.session != nil && !s.session.ended && counts[s.ID] <= tracers[s.ID]:
			unused = append(unused, s)
		}
	}
	return c.letGo(unused)
}

// Forget removes the programs for which gone returns true, with their counts. It reports whether there were any. The indexes of the others change.
func (c *Counter) Forget(gone func(Target) bool) (forgotten bool, err error) {
	var kept []*subject
	for _, s := range c.programs {
		if !gone(s.Target) {
			kept = append(kept, s)
			continue
		}
		forgotten = true
		if s.session != nil {
			err = errors.Join(err, c.letGo([]*subject{s}))
		} else {
			err = errors.Join(err, s.close())
		}
	}
	return forgotten, errors.Join(err, c.setPrograms(kept))
}

// letGo ends counting in these traced programs and closes their sessions.
func (c *Counter) letGo(all []*subject) error {
	if len(all) == 0 {
		return nil
	}
	if err := c.end(all); err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// newReferences loads the BPF iterator that counts the references to each loaded program (Linux 5.10).
func newReferences() (*link.Iter, error) {
	var o referencesObjects
	if err := loadReferencesObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load a BPF program that counts the references to others: %w", err)
	}
	defer o.Close()
	l, err := link.AttachIter(link.IterOptions{Program: o.BperfRefs})
	if err != nil {
		return nil, fmt.Errorf("attach a BPF program that counts the references to others: %w", err)
	}
	return l, nil
}

// countReferences returns the number of references to each loaded program, by ID.
func (c *Counter) countReferences() (counts map[uint32]int64, err error) {
	if c.references == nil {
		if c.references, err = newReferences(); err != nil {
			return nil, err
		}
	}
	r, err := c.references.Open()
	if err != nil {
		return nil, fmt.Errorf("count the references to BPF programs: %w", err)
	}
	defer r.Close()
	counts = make(map[uint32]int64)
	for {
		var of referencesReferencesOf
		err := binary.Read(r, binary.NativeEndian, &of)
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("count the references to BPF programs: %w", err)
		}
		counts[uint32(of.Id)] = of.Count - 1
	}
}
