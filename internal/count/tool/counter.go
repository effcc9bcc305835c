// Package tool provides the tool events, which no PMU counts: duration_time, user_time and system_time.
//
// All values are in ns, with the precision of their source. duration_time is precise to 1 ns. user_time and system_time of
// threads and CPUs are multiples of a clock tick of 10 ms (/proc/PID/stat, /proc/stat). Those of cgroups (cpu.stat), and
// those of a command, for which the caller passes the rusage, are multiples of 1 µs.
package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// Counter is a count.Counter for tool events. Their time enabled is wall-clock time, and their time running
// is the same. It is not safe for concurrent use.
//
// duration_time has one cell, or one per cgroup, without a CPU or thread. The other events have one cell per
// CPU, thread or cgroup of the target. With Inherit, if the target has all threads of a process, the process
// has a single cell, that of its first thread in the target. This cell includes threads that
// start later, and children that the process has waited for. The last reading of a task that has ended stays.
//
// For a command, the caller must call Enable before the command is executed, and Finish after it has ended.
type Counter struct {
	meters  []meter
	cells   []count.Cell
	errs    []error
	refresh func() error // reads the file that several meters use; may be nil

	enabled time.Time     // zero while disabled
	before  time.Duration // enabled up to the last Disable
}

// meter is the source of one cell.
type meter struct {
	tool  event.Tool
	now   func() (uint64, error) // ns since any start; nil for the time enabled
	since uint64                 // reading at the last Enable
	total uint64                 // count up to the last Disable
	final bool                   // total is the result
}

// Options are the options of a Counter.
type Options struct {
	Inherit bool // also count later threads of the target's processes, and their children
}

// Open returns a counter for the tool events of a list, disabled. Other events have no cells.
func Open(list event.List, t target.Target, o Options) (*Counter, error) {
	return open(os.DirFS("/"), list, t, o)
}

func open(root fs.FS, list event.List, t target.Target, o Options) (*Counter, error) {
	events := list.Events()
	c := &Counter{errs: make([]error, len(events))}
	times := timesOf(root, t, o)
	c.refresh = times.refresh
	for i, e := range events {
		switch e.Tool {
		case event.ToolNone:
		case event.DurationTime:
			c.addDuration(i, t)
		default:
			if times.err != nil {
				c.errs[i] = &count.Unsupported{Event: e, Err: times.err, Reason: times.reason, Remedy: times.remedy}
				continue
			}
			for _, from := range times.from {
				cell := count.Cell{Event: i, CPU: from.cpu, Thread: from.thread, Cgroup: from.cgroup, Program: count.None}
				c.add(cell, meter{tool: e.Tool, now: func() (uint64, error) {
					user, system, err := from.read()
					if e.Tool == event.UserTime {
						return user, err
					}
					return system, err
				}})
			}
		}
	}
	return c, nil
}

func (c *Counter) addDuration(i int, t target.Target) {
	for cgroup := range max(len(t.Cgroups), 1) {
		if len(t.Cgroups) == 0 {
			cgroup = count.None
		}
		c.add(count.Cell{Event: i, CPU: count.None, Thread: count.None, Cgroup: cgroup, Program: count.None}, meter{tool: event.DurationTime})
	}
}

func (c *Counter) add(cell count.Cell, m meter) {
	c.cells = append(c.cells, cell)
	c.meters = append(c.meters, m)
}

// Enable starts counting.
func (c *Counter) Enable() error {
	if !c.enabled.IsZero() {
		return nil
	}
	if err := c.update(); err != nil {
		return err
	}
	for i := range c.meters {
		m := &c.meters[i]
		if m.now == nil {
			continue
		}
		since, err := m.now()
		if err != nil && !gone(err) {
			return fmt.Errorf("read CPU times: %w", err)
		}
		m.since = since
	}
	c.enabled = time.Now()
	return nil
}

// Disable stops counting and keeps the readings.
func (c *Counter) Disable() error {
	if c.enabled.IsZero() {
		return nil
	}
	if err := c.read(time.Now()); err != nil {
		return err
	}
	for i := range c.meters {
		c.meters[i].total = c.cells[i].Value
	}
	if len(c.cells) > 0 {
		c.before = time.Duration(c.cells[0].Enabled)
	}
	c.enabled = time.Time{}
	return nil
}

// Read appends the current readings to dst.
func (c *Counter) Read(dst []count.Cell) ([]count.Cell, error) {
	if !c.enabled.IsZero() {
		if err := c.read(time.Now()); err != nil {
			return nil, err
		}
	}
	return append(dst, c.cells...), nil
}

func (c *Counter) read(at time.Time) error {
	if err := c.update(); err != nil {
		return err
	}
	elapsed := uint64(c.before + at.Sub(c.enabled))
	for i := range c.meters {
		m, cell := &c.meters[i], &c.cells[i]
		cell.Enabled, cell.Running = elapsed, elapsed
		if m.now == nil {
			cell.Value = elapsed
			continue
		}
		if m.final {
			continue
		}
		now, err := m.now()
		if gone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read CPU times: %w", err)
		}
		// The kernel estimates how a task's time divides into user and system, so either may decrease.
		cell.Value = max(cell.Value, m.total+max(now, m.since)-m.since)
	}
	return nil
}

func (c *Counter) update() error {
	if c.refresh == nil {
		return nil
	}
	return c.refresh()
}

// Finish sets the CPU times of the measured command, from its rusage. They replace the times that the counter read while
// the command ran.
func (c *Counter) Finish(user, system time.Duration) {
	for i := range c.meters {
		m := &c.meters[i]
		switch m.tool {
		case event.UserTime:
			m.total = uint64(user)
		case event.SystemTime:
			m.total = uint64(system)
		default:
			continue
		}
		m.final = true
		c.cells[i].Value = m.total
	}
}

// Err returns why an event is not counted, a *count.Unsupported, or nil.
func (c *Counter) Err(event int) error { return c.errs[event] }

// Close does nothing, because the counter holds no files.
func (c *Counter) Close() error { return nil }

// gone reports whether an error of /proc means that the task has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
