// Package direct counts with perf events that one session opens for itself.
//
// A scope is what one perf event can count: a CPU, a thread, or a cgroup on a CPU. Each event has one file descriptor for each scope of the
// target. The events of a group in one scope are a set; bperf enables and reads a set through its first event.
package direct

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Counter is a count.Counter that reads perf events. It is not safe for concurrent use.
type Counter struct {
	mu      sync.Mutex // between the methods and followCPUs
	opener  *opener
	uevents target.CPUChanges // for a target of CPUs
	failed  error             // from followCPUs
	joined  map[int]bool      // CPUs whose events were opened while the counter was enabled
	array   *ebpf.Map         // the arguments of Fill; nil until it is called
	refill  func(cpu int) error

	sets   []set        // sorted by CPU
	shares []share      // of sets
	cells  []count.Cell // events in order, with their last readings
	errs   []error      // by event

	fresh   bool      // no event has counted yet
	enabled time.Time // zero while disabled
	last    time.Time // the last reading while enabled, or enabled
}

// set has the events of a group in one scope. The first enables and reads all of them.
type set struct {
	scope
	members  []*member
	events   []*perfevent.Event  // by member; nil while the CPU is offline
	cells    []int               // index in Counter.cells, by member
	readings []perfevent.Reading // the last ones of the open perf events, by member
	before   []perfevent.Reading // of the perf events closed when their CPU went offline, by member; nil if none was
	pinned   bool
	group    bool // opened with ReadFormatGroup
}

// Enable starts counting.
func (c *Counter) Enable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = false
	if err := c.each(func(s *set) error { return s.events[0].Enable() }); err != nil {
		return fmt.Errorf("start counting: %w", err)
	}
	if c.enabled.IsZero() {
		c.enabled = time.Now()
		c.last = c.enabled
	}
	return nil
}

// Disable stops counting.
func (c *Counter) Disable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	err := c.each(func(s *set) error {
		if err := s.events[0].Disable(); err != nil || !s.pinned {
			return err
		}
		return c.update(s, now) // addLost adds nothing after this
	})
	if err != nil {
		return fmt.Errorf("stop counting: %w", err)
	}
	c.enabled = time.Time{}
	return nil
}

// Read appends the current readings to dst.
//
// A pinned event that loses its counter keeps its value and its time running, while its time enabled
// grows.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return nil, c.failed
	}
	if c.fresh {
		return append(dst, c.cells...), nil
	}
	now := time.Now()
	err := c.each(func(s *set) error { return c.update(s, now) })
	if err != nil {
		return nil, readError(err)
	}
	c.last = now
	return append(dst, c.cells...), nil
}

// update reads a set. If its pinned events have lost their counter, update adds only time enabled.
func (c *Counter) update(s *set, now time.Time) error {
	err := c.readSet(s)
	if s.pinned && errors.Is(err, perfevent.ErrPinned) {
		c.addLost(s, now)
		return nil
	}
	return err
}

// addLost adds the time since the last reading to the time enabled of pinned events that have lost their counter.
func (c *Counter) addLost(s *set, now time.Time) {
	if c.enabled.IsZero() {
		return
	}
	for _, cell := range s.cells {
		c.cells[cell].Enabled += uint64(now.Sub(c.last))
	}
}

// each calls f for all open sets. Goroutines take shares of many sets: most of the time goes by in system calls that wait for other CPUs.
func (c *Counter) each(f func(*set) error) error {
	if len(c.sets) < manySets {
		for _, s := range c.shares {
			if err := s.each(f); err != nil {
				return err
			}
		}
		return nil
	}
	return together(c.shares, func(s share) error { return s.each(f) })
}

// together calls f for all parts, on as many threads as there are CPUs, and returns the first error.
func together[T any](parts []T, f func(T) error) error {
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, part := range parts {
		all.Go(func() error { return f(part) })
	}
	return all.Wait()
}

// manySets is the number of sets from which on goroutines save more time than they take to start.
const manySets = 256

// share is a part of a counter's sets: those of one CPU, or some of threads.
type share []set

// each calls f for all open sets, through onCPU.
func (s share) each(f func(*set) error) error {
	return onCPU(s[0].cpu, len(s), func() error {
		for i := range s {
			if s[i].events == nil {
				continue
			}
			if err := f(&s[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// sharesOf divides sorted sets.
func sharesOf(sets []set) (shares []share) {
	for len(sets) > 0 {
		n := 1
		for n < len(sets) && sets[n].cpu == sets[0].cpu && (sets[0].cpu != count.None || n < manySets) {
			n++
		}
		shares, sets = append(shares, sets[:n]), sets[n:]
	}
	return shares
}

// onCPU runs f on the given CPU if f touches enough of that CPU's events to pay for migrating there; otherwise it runs f here.
func onCPU(cpu, events int, f func() error) error {
	const enough = 8
	if cpu == count.None || events < enough {
		return f()
	}
	return perfevent.OnCPU(cpu, f)
}

// readError explains an error of reading an event.
func readError(err error) error {
	if errors.Is(err, syscall.ECHILD) {
		return fmt.Errorf("read a group of events: %w. A thread that started while the group was opened has only a part of it. "+
			"Start again, or leave out the braces", err)
	}
	return fmt.Errorf("read a counter: %w", err)
}

func (c *Counter) readSet(s *set) error {
	readings := s.readings
	if err := s.read(readings); err != nil {
		return err
	}
	for i, cell := range s.cells {
		c.cells[cell].Reading = readings[i]
		if s.before != nil {
			c.cells[cell].Add(s.before[i])
		}
	}
	return nil
}

// read reads the perf events of a set.
func (s *set) read(dst []perfevent.Reading) (err error) {
	if !s.group {
		dst[0], err = s.events[0].Read()
		return err
	}
	err = s.events[0].ReadGroup(dst)
	if errors.Is(err, io.ErrUnexpectedEOF) { // its CPU went offline
		err = nil
		for i := 0; i < len(dst) && err == nil; i++ {
			err = s.events[i].ReadGroup(dst[i : i+1])
		}
	}
	return err
}

// Err returns why an event is not counted: a *count.Unsupported or, if the session counts other events,
// an *accessError.
func (c *Counter) Err(event int) error { return c.errs[event] }

// Close closes all events; the counter cannot be used any more.
func (c *Counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.uevents.Close()}
	var mu sync.Mutex // guards errs
	closeEvent := func(e *perfevent.Event) {
		if err := e.Close(); err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		}
	}
	_ = c.each(func(s *set) error {
		for _, e := range s.events {
			closeEvent(e)
		}
		return nil
	})
	c.opener.closeClocks(closeEvent)
	c.sets, c.shares, c.cells, c.opener = nil, nil, nil, nil
	return errors.Join(errs...)
}
