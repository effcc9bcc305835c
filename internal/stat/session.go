// Package stat runs counting sessions and prints their results as text, CSV or JSON.
//
// A session makes one or more runs. A run opens counters for the target and reads them into cells: one cell holds one event on one CPU or
// thread, in one cgroup or BPF program. A layout sums cells into rows, and metrics are computed from rows. A snapshot is all rows of an
// interval, of the summary, or of the whole run. A Printer prints snapshots.
package stat

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
)

// Config configures a session: what it measures, and how. As in the command line, each field is a choice of its own.
type Config struct {
	session.Spec

	Events       event.List
	Vendor       *VendorMetrics // metrics to compute from the events, beside bperf's own; nil for none
	EventCgroups []string       // with -G: the name of each event's cgroup, empty for none; otherwise nil
	Defaults     bool           // bperf chose the events: the text leaves out the ones that the machine lacks

	Subject string // the target in words, for the heading

	Programs    []program.Target   // BPF programs to count in, on all CPUs; Target is the system then
	Follow      *program.Selection // also count programs that match it and are loaded later; the session goes on without any; nil for none
	SumPrograms bool               // sum all programs into one
	Calibrate   bool               // subtract what the probes themselves count in each run

	Shared shared.Where // where sessions find the counters that they share

	Inherit     bool
	AllUser     bool
	AllKernel   bool
	Raw         bool // do not scale multiplexed counts
	NoMerge     bool // separate rows for the boxes of an uncore PMU
	Aggregation Aggregation
	CacheLevel  int // of AggregateCache; 0 for the highest

	PerCoreThreads bool // with AggregateNone: event.Event.PerCore events have a row for each CPU, with the sum over its core

	Interval      time.Duration // 0 for one result at the end
	IntervalCount int           // end after this number of intervals; 0 for no limit
	Repeat        int           // number of runs; 0 to repeat until interrupted
	Sync          bool          // write dirty pages to disk before each run
	Pre, Post     string        // shell commands before and after each run
	Summary       bool          // with Interval: also print the sum at the end
	Recording     *Recording    // also record the counts; nil to print them only. It excludes Repeat, cgroups and BPF programs

	Verbose func(string) // receives each event's raw reading; may be nil
}

// inPrograms reports whether the session counts in BPF programs. There may be none yet.
func (c *Config) inPrograms() bool { return len(c.Programs) > 0 || c.Follow != nil }

// errNothingCounts is wrapped by the error of a session that can count none of its events.
var errNothingCounts = errors.New("no supported events found")

// Run runs a session to its end, and prints each result when it is complete.
func Run(cfg Config, p Printer) (session.Result, error) {
	s := &counting{cfg: &cfg, printer: p}
	err := s.measure()
	return s.result, err
}

// counting is a counting session with all its runs.
type counting struct {
	cfg     *Config
	printer Printer
	result  session.Result // of the last run

	outcome Outcome
	repeats repeats
	headed  bool // the heading is printed
}

// measure does all runs.
func (s *counting) measure() error {
	for n := 1; ; n++ {
		s.outcome.Subject = s.cfg.Subject
		if err := s.between(s.cfg.Pre); err != nil {
			return err
		}
		if s.cfg.Sync {
			syscall.Sync()
		}
		if err := s.run(); err != nil {
			return err
		}
		if err := s.between(s.cfg.Post); err != nil {
			return err
		}
		over := n == s.cfg.Repeat || s.result.Signal != nil
		if !over && s.cfg.Repeat != 0 {
			continue
		}
		if err := s.conclude(); err != nil || over {
			return err
		}
	}
}

// conclude prints the result of the runs so far, and resets it.
func (s *counting) conclude() error {
	if s.cfg.Interval == 0 {
		rows := withMetrics(s.repeats.rows(), s.cfg.Vendor, s.outcome.elapsed())
		if err := s.print(Snapshot{Rows: rows}); err != nil {
			return err
		}
	}
	err := s.printer.End(s.outcome)
	s.outcome, s.repeats, s.headed = Outcome{}, repeats{}, false
	return err
}

// between runs the shell command before or after a run.
func (s *counting) between(command string) error {
	if command == "" {
		return nil
	}
	c := exec.Command("/bin/sh", "-c", command)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("run %q around the measurement: %w", command, err)
	}
	return nil
}

// print prints a set of rows, after the heading if it is the first.
func (s *counting) print(snapshot Snapshot) error {
	if !s.headed {
		s.headed = true
		if err := s.printer.Header(s.outcome); err != nil {
			return err
		}
	}
	if s.cfg.Target.Threads { // most of a machine's threads sleep
		snapshot.Rows = slices.DeleteFunc(snapshot.Rows, func(r Row) bool { return r.Err == nil && r.Value == 0 })
	}
	return s.printer.Snapshot(snapshot)
}

// attempts limits how often a target is reopened because it started threads while bperf opened it.
const attempts = 5

// open opens the counters of a run. A thread that starts between listing and opening is counted only if its creator was already being
// counted. So open lists the target again afterwards, and reopens it if there are new threads.
func (s *counting) open(resolve func() (target.Target, error)) (*counters, error) {
	o := count.Options{
		Inherit:      s.cfg.Inherit,
		EnableOnExec: s.enableOnExec(),
		AllUser:      s.cfg.AllUser,
		AllKernel:    s.cfg.AllKernel,
		LaterCPUs:    s.cfg.Aggregation == AggregateGlobal && s.cfg.Target.System,
	}
	t, err := resolve()
	if err != nil {
		return nil, err
	}
	if len(t.Offline) > 0 {
		s.cfg.Notify("offline, and left out: CPU " + procfs.FormatCPUList(t.Offline))
	}
	for n := 1; ; n++ {
		c, err := openCounters(s.cfg, t, o)
		if err != nil {
			return nil, err
		}
		again, err := resolve()
		if err != nil || again.SameThreads(t) { // an error means that the target has gone; its counts stay
			return c, nil
		}
		if n == attempts {
			s.cfg.Notify("the target starts threads faster than they can be opened: " +
				"those of the last moment are counted only if the thread that started them already was")
			return c, nil
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
		t = again
	}
}

// enableOnExec reports whether the kernel starts the counters when it executes the command.
func (s *counting) enableOnExec() bool {
	return s.cfg.CommandIsTarget() && !s.cfg.Waits()
}

// inheritable reports whether the command can inherit the counters from the thread that starts it, which saves a stopped child. That
// thread's own counters are never enabled, because it never executes anything. The command cannot inherit them if they are enabled in
// another way, if children must not inherit, or if the command's ID must be known before it runs: to record it, or to read its CPU time at
// intervals.
func (s *counting) inheritable() bool {
	return s.enableOnExec() && s.cfg.Inherit && s.cfg.Control == nil && s.cfg.Interval == 0 && s.cfg.Recording == nil
}

// supported returns an error if the session can count none of its events.
func supported(c *counters) error {
	if len(c.events) == 0 {
		return nil
	}
	var all []error
	for i := range c.events {
		err := c.Err(i)
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return fmt.Errorf("%w:\n%s", errNothingCounts, strings.Join(errorLines(all), "\n"))
}
