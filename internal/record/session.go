package record

import (
	"fmt"
	"sync"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
)

// recorder is the session of a recording. Two goroutines work on it: the one that calls Run owns it, and the collector's runs while samples
// arrive.
type recorder struct {
	*session.Session
	cfg       *Config
	sources   *sources
	collector *collector
	cpus      target.CPUChanges
}

// Run makes a recording, and returns when it has ended.
func Run(cfg Config) (Result, error) {
	s := &recorder{Session: session.New(&cfg.Spec), cfg: &cfg}
	if s.cfg.Verbose == nil {
		s.cfg.Verbose = func(string) {}
	}
	if s.cfg.Allowance == nil {
		s.cfg.Allowance = allowance.New(allowance.DefaultMemory)
	}
	defer s.close()
	err := s.launch()
	if err == nil {
		err = s.record()
	}
	result := Result{Result: s.Result}
	s.collector.report(&result)
	return result, err
}

// close closes everything that is still open.
func (s *recorder) close() {
	s.Close()
	s.collector.close()
	s.cpus.Close()
	s.sources.close()
}

// launch opens everything that the recording needs, without starting it.
func (s *recorder) launch() error {
	if err := checkRate(s.cfg); err != nil {
		return err
	}
	if err := s.cfg.checkRealtime(); err != nil {
		return err
	}
	p, err := newPlan(s.cfg)
	if err != nil {
		return err
	}
	s.sources = &sources{plan: p, rings: make(map[ringKey]*ring)}
	if err := s.sources.loadUnwinder(); err != nil {
		return err
	}
	if err := s.sources.loadFilters(); err != nil { // filters call the unwinder
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
	s.collector, err = newCollector(s.sources)
	return err
}

// resolve resolves the target, and prepares the command.
func (s *recorder) resolve() (err error) {
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
	command, err := s.Prepare()
	if err == nil && s.cfg.CommandIsTarget() {
		to.Threads = []target.Thread{command}
	}
	return err
}

// record writes the output from start to end.
func (s *recorder) record() (err error) {
	c := s.collector
	if c.out, err = newOutput(s.cfg, c.described(), c.machine, c.setFeatures); err != nil {
		return err
	}
	err = s.collect()
	if closeErr := c.out.finish(); err == nil {
		err = closeErr
	}
	if left := c.out.writer.LeftOut(); left != nil {
		s.cfg.Notify(left.Error())
	}
	return err
}

// collect writes the records of what exists, then those of the rings.
func (s *recorder) collect() error {
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
	var failed error
	running.Go(func() {
		defer close(c.ended)
		if failed = s.cfg.becomeRealtime(); failed == nil {
			failed = c.run()
		}
	})
	err := s.wait()
	if s.TimedOut {
		s.cfg.Allowance.End()
	}
	disabled := s.sources.enable(false)
	c.stop()
	running.Wait()
	s.End()
	if err == nil {
		err = failed
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
func (s *recorder) begin() error {
	switch {
	case s.cfg.Waits():
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
	return s.Execute()
}

// wait returns when the recorded time is over.
func (s *recorder) wait() error {
	c := s.collector
	rotate := func() (bool, error) { c.rotate(); return false, nil }
	go func() {
		for change := range s.cpus.All() {
			if !s.Do(func() (bool, error) { s.followCPU(change, c.join); return false, nil }) {
				return
			}
		}
	}()
	go func() {
		for {
			select {
			case <-s.cfg.Switch.Requests:
				s.Do(rotate)
			case <-c.ended:
				s.Do(func() (bool, error) { return true, nil })
				return
			case <-s.Over():
				return
			}
		}
	}()
	return s.Wait(&session.Measurement{
		Enable:  func() error { return s.sources.enable(true) },
		Disable: func() error { return s.sources.enable(false) },
		Threads: len(s.sources.target.Threads) > 0,
		Every:   s.cfg.Switch.Every,
		Tick:    rotate,
	})
}
