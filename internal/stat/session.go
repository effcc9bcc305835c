// Package stat is a counting session: from what is asked for to the rows of its result, and the
// result's forms as text, CSV and JSON.
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

// Config is what a session measures, and how.
type Config struct {
	session.Spec

	Events       event.List
	EventCgroups []string // with -G: for each event the cgroup's name, or empty for none; nil without
	Defaults     bool     // the events are bperf's choice: what the machine lacks is left out of the text

	Subject string // the target in words, for the heading

	Programs    []program.Target   // BPF programs that are counted, on all CPUs; then Target is the system
	Follow      *program.Selection // programs of it that come while counting are counted, too, and all may go; nil for none
	SumPrograms bool               // as one
	Calibrate   bool               // what the probes themselves count in each run is taken off

	Shared shared.Where // where sessions find the counters that they share

	Inherit     bool
	AllUser     bool
	AllKernel   bool
	Raw         bool // do not scale
	NoMerge     bool // keep the boxes of an uncore PMU apart
	Aggregation Aggregation

	Interval      time.Duration // 0 for one result at the end
	IntervalCount int           // end after as many, 0 for no such end
	Repeat        int           // runs; 0 for until interrupted
	Sync          bool          // write out dirty pages before each run
	Pre, Post     string        // shell commands around each run
	Summary       bool          // with Interval: the sum at the end, too

	Verbose func(string) // takes each event's raw reading; may be nil
}

// inPrograms reports whether what is counted are BPF programs, of which there may be none yet.
func (c *Config) inPrograms() bool { return len(c.Programs) > 0 || c.Follow != nil }

// errNothingCounts is wrapped by the error of a session of which no event can be counted.
var errNothingCounts = errors.New("no supported events found")

// Run measures, and prints each result as it comes.
func Run(cfg Config, p Printer) (session.Result, error) {
	s := &counting{cfg: &cfg, printer: p}
	err := s.measure()
	return s.result, err
}

// counting is a session that counts, with all its runs.
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

// conclude prints what the runs so far have in common, and forgets them.
func (s *counting) conclude() error {
	if s.cfg.Interval == 0 {
		if err := s.print(Snapshot{Rows: s.repeats.rows(s.outcome.elapsed())}); err != nil {
			return err
		}
	}
	err := s.printer.End(s.outcome)
	s.outcome, s.repeats, s.headed = Outcome{}, repeats{}, false
	return err
}

// between runs one of the shell commands around a run.
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

// print prints one set of rows, after the heading if it is the first.
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

// attempts is how often a target is opened anew because threads started meanwhile.
const attempts = 5

// open opens the counters of a run. Threads that start between listing and opening are counted if
// their creator was already being counted, and otherwise not: so the target is listed again
// afterwards, and opened anew when there are threads that it did not have.
func (s *counting) open(resolve func() (target.Target, error)) (*counters, error) {
	o := count.Options{
		Inherit:      s.cfg.Inherit,
		EnableOnExec: s.enableOnExec(),
		AllUser:      s.cfg.AllUser,
		AllKernel:    s.cfg.AllKernel,
		PerThread:    s.cfg.Aggregation == AggregateThread,
		LaterCPUs:    !s.cfg.inPrograms() && s.cfg.Aggregation == AggregateGlobal && s.cfg.Target.System,
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
		if err != nil || again.SameThreads(t) { // on an error the target has gone; what it did is counted
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

// inheritable reports whether the command can inherit the counters from the thread that starts it,
// which saves a stopped child: that thread's own are never enabled, as it never executes anything.
// It must not be so if they are enabled in another way, if children must not inherit, or if the
// command's ID must be known before it runs, to read its CPU time at intervals.
func (s *counting) inheritable() bool {
	return s.enableOnExec() && s.cfg.Inherit && s.cfg.Control == nil && s.cfg.Interval == 0
}

// supported is an error when not a single event of a session can be counted.
func supported(c *counters) error {
	if len(c.events) == 0 {
		return nil
	}
	var reasons []string
	for i := range c.events {
		err := c.Err(i)
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return fmt.Errorf("%w:\n%s", errNothingCounts, strings.Join(reasons, "\n"))
}
