package record

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// session is a recording. Two goroutines work on it: the one that calls Run, which owns the session, and the collector's while samples come.
type session struct {
	cfg       *Config
	sources   *sources
	collector *collector
	cpus      target.CPUChanges
	command   *target.Command // nil without one
	exited    <-chan target.Status
	result    Result
}

// Run records as it is asked for.
func Run(cfg Config) (Result, error) {
	s := &session{cfg: &cfg}
	if s.cfg.Verbose == nil {
		s.cfg.Verbose = func(string) {}
	}
	if s.cfg.Allowance == nil {
		s.cfg.Allowance = allowance.New(allowance.DefaultMemory)
	}
	defer s.close()
	if err := s.launch(); err != nil {
		return s.result, err
	}
	err := s.record()
	s.collector.report(&s.result)
	return s.result, err
}

// close releases what is still open.
func (s *session) close() {
	if s.command != nil {
		s.command.Kill() // does nothing when it has ended
	}
	s.collector.close()
	s.cpus.Close()
	s.sources.close()
}

// launch opens everything, up to where recording can begin.
func (s *session) launch() error {
	if err := checkRate(s.cfg); err != nil {
		return err
	}
	p, err := newPlan(s.cfg)
	if err != nil {
		return err
	}
	s.sources = &sources{plan: p, rings: make(map[ringKey]*ring)}
	if err := p.loadFilters(); err != nil {
		return err
	}
	if err := s.resolve(); err != nil {
		return err
	}
	if s.cpus, err = target.ListenForCPUs(); err != nil {
		s.cfg.Verbose(fmt.Sprintf("bperf does not notice CPUs that come online: %v", err))
	}
	if err := s.sources.open(); err != nil {
		return err
	}
	s.collector, err = newCollector(s.sources, s.command)
	return err
}

// resolve finds the target. It starts the command, which waits until Exec.
func (s *session) resolve() (err error) {
	to := &s.sources.target
	if !s.cfg.CommandIsTarget() {
		*to, err = s.cfg.Target.Resolve()
		if err == nil && len(to.Offline) > 0 {
			s.cfg.Notify(fmt.Sprintf("CPUs %s are offline and are not recorded", procfs.FormatCPUList(to.Offline)))
		}
	}
	if err != nil || len(s.cfg.Command) == 0 {
		return err
	}
	if s.command, err = target.StartCommand(s.cfg.Command); err != nil {
		return err
	}
	if s.cfg.CommandIsTarget() {
		pid := s.command.PID()
		*to = target.Target{Threads: []target.Thread{{TID: pid, PID: pid, Comm: s.cfg.Command[0]}}}
	}
	return nil
}

// record writes the output from its beginning to its end.
func (s *session) record() (err error) {
	c := s.collector
	if c.out, err = newOutput(s.cfg, c.described(), c.machine, c.setFeatures); err != nil {
		return err
	}
	err = s.collect()
	if closeErr := c.out.finish(); err == nil {
		err = closeErr
	}
	return err
}

// collect writes what exists, and then what the rings get.
func (s *session) collect() error {
	c := s.collector
	if err := c.listen(); err != nil {
		return err
	}
	defer c.waiter.Close()
	if err := c.introduce(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { c.done <- c.run() })
	err := s.wait()
	disabled := s.sources.enable(false)
	c.stop()
	running.Wait()
	if s.command != nil {
		s.endCommand()
	}
	if err == nil {
		err = <-c.done
	}
	if err == nil {
		err = disabled
	}
	if err != nil {
		return err
	}
	return c.conclude()
}

// begin starts sampling and the command.
func (s *session) begin() error {
	waits := s.cfg.Delay > 0 || s.cfg.StartDisabled
	switch {
	case waits:
		s.cfg.Notify("Events disabled")
	case s.cfg.CommandIsTarget() && !s.sources.samplesCPUs(): // the kernel enables the events when it executes the command
		if err := s.sources.enabledByExec(); err != nil {
			return err
		}
	default:
		if err := s.sources.enable(true); err != nil {
			return err
		}
		s.cfg.Verbose("events are enabled")
	}
	if s.command == nil {
		return nil
	}
	if err := s.command.Exec(); err != nil {
		return err
	}
	s.exited = s.command.Exited()
	return nil
}

// wait returns when the recorded time is over.
func (s *session) wait() error {
	c := s.collector
	var ended <-chan struct{}
	if s.command == nil && len(s.sources.target.Threads) > 0 {
		var stop func()
		ended, stop = s.cfg.Target.Watch()
		defer stop()
	}
	over := make(chan struct{})
	defer close(over)
	cpus := s.cpuChanges(over)
	delay, timeout := after(s.cfg.Delay), after(s.cfg.Timeout)
	commands := s.cfg.Control.Commands()
	var rotate <-chan time.Time
	if s.cfg.Switch.Every > 0 {
		t := time.NewTicker(s.cfg.Switch.Every)
		defer t.Stop()
		rotate = t.C
	}
	for {
		select {
		case s.result.Command = <-s.exited:
			s.exited = nil
			return nil
		case s.result.Signal = <-s.cfg.Signals:
			return nil
		case <-timeout:
			s.cfg.Allowance.End()
			return nil
		case <-ended:
			return nil
		case err := <-c.done:
			c.done <- err
			return nil
		case change := <-cpus:
			s.followCPU(change, c.join)
		case <-delay:
			if err := s.sources.enable(true); err != nil {
				return err
			}
			s.cfg.Notify("Events enabled")
		case <-s.cfg.Switch.Requests:
			c.rotate()
		case <-rotate:
			c.rotate()
		case command, ok := <-commands:
			if !ok {
				commands = nil
				break
			}
			over, err := s.obey(command)
			if over || err != nil {
				return err
			}
		}
	}
}

// after is time.After, but never for no time.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// obey does what the control descriptor says.
func (s *session) obey(command control.Command) (over bool, err error) {
	switch command {
	case control.Enable:
		err = s.sources.enable(true)
		s.cfg.Notify("Events enabled")
	case control.Disable:
		err = s.sources.enable(false)
		s.cfg.Notify("Events disabled")
	case control.Stop:
		over = true
	}
	if err != nil {
		return false, err
	}
	return over, s.cfg.Control.Ack()
}

// endCommand ends a command that still runs: with the signal that the session got, or SIGTERM.
func (s *session) endCommand() {
	if s.exited == nil {
		return
	}
	status, next := s.command.End(cmp.Or(s.result.Signal, os.Signal(syscall.SIGTERM)), s.exited, s.cfg.Signals)
	s.result.Command, s.result.Signal, s.exited = status, cmp.Or(next, s.result.Signal), nil
}
