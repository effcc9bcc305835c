// Package session holds what stat and record have in common. A session starts a command or watches a target, and starts and stops the
// events. It ends with the command or the target, after a timeout, at a signal, or on request.
package session

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/target"
)

// Spec selects who is measured, and for how long.
type Spec struct {
	Target  target.Spec
	Command []string // measured if Target is empty; otherwise it only sets how long the session runs

	Delay         time.Duration    // the events start this long after the session
	StartDisabled bool             // the events start when Control enables them
	Timeout       time.Duration    // the session ends after it; 0 for no limit
	Control       *control.Channel // nil without one
	Signals       <-chan os.Signal // each signal ends the session
	Done          <-chan struct{}  // closing it ends the session; nil for none

	Notify func(string) // receives lines for the user: "Events enabled", warnings
}

// CommandIsTarget reports whether the command is measured, rather than a target while the command runs.
func (s *Spec) CommandIsTarget() bool { return len(s.Command) > 0 && s.Target.Nobody() }

// Waits reports whether the events start later than the session.
func (s *Spec) Waits() bool { return s.Delay > 0 || s.StartDisabled }

// Result describes how a session ended.
type Result struct {
	Signal  os.Signal     // the signal that ended it, or nil
	Command target.Status // zero without a command; without a signal if that is the SIGTERM of End
}

// Session is a session, from New to Close.
type Session struct {
	*Spec
	Result
	TimedOut bool // Timeout ended it

	command *target.Command // nil without one
	exited  <-chan target.Status
	work    chan func() (over bool, err error)
	over    chan struct{}
}

// New returns a session that has not started anything yet.
func New(spec *Spec) *Session {
	return &Session{Spec: spec, work: make(chan func() (bool, error)), over: make(chan struct{})}
}

// Prepare starts a process that waits for Execute to become the command, and returns its thread.
func (s *Session) Prepare() (t target.Thread, err error) {
	if s.command, err = target.StartCommand(s.Spec.Command); err != nil {
		return t, err
	}
	return target.Thread{TID: s.command.PID(), PID: s.command.PID(), Comm: s.Spec.Command[0]}, nil
}

// Execute executes the command, if the session has one. It starts the command if Prepare did not.
func (s *Session) Execute() (err error) {
	switch {
	case len(s.Spec.Command) == 0:
		return nil
	case s.command != nil:
		err = s.command.Exec()
	default: // Prepare was not called
		s.command, err = target.RunCommand(s.Spec.Command)
	}
	if err == nil {
		s.exited = s.command.Exited()
	}
	return err
}

// Measurement is the part of a session that does the measuring. The goroutine of Wait calls its functions, one at a time.
type Measurement struct {
	Enable, Disable func() error // start and stop the events
	Threads         bool         // the target is threads: without a command, the session ends when all of them have ended

	Every time.Duration                 // between two calls of Tick, from the end of the delay on; 0 for none
	Tick  func() (over bool, err error) // called at each interval; over ends the session
}

// Do makes the goroutine of Wait call f, which may end the session. It returns false if the session is over.
func (s *Session) Do(f func() (over bool, err error)) bool {
	select {
	case s.work <- f:
		return true
	case <-s.over:
		return false
	}
}

// Over returns a channel that Wait closes when it returns.
func (s *Session) Over() <-chan struct{} { return s.over }

// Wait runs the measurement until the session is over, or until the first error of the measurement. The command may still run then: see
// End. Wait can be called only once.
func (s *Session) Wait(m *Measurement) error {
	defer close(s.over)
	delay, timeout := after(s.Delay), after(s.Timeout)
	var ended <-chan struct{}
	if m.Threads && s.command == nil {
		var stop func()
		ended, stop = s.Target.Watch()
		defer stop()
	}
	var ticks <-chan time.Time
	startTicks := func() {
		if m.Every > 0 {
			ticks = time.Tick(m.Every)
		}
	}
	if delay == nil {
		startTicks()
	}
	commands := s.Control.Commands()
	for {
		var over bool
		var err error
		select {
		case s.Result.Command = <-s.exited:
			s.exited = nil
			return nil
		case s.Signal = <-s.Signals:
			return nil
		case <-s.Done:
			return nil
		case <-timeout:
			s.TimedOut = true
			return nil
		case <-ended:
			return nil
		case <-delay:
			err = s.enable(m)
			startTicks()
		case c, ok := <-commands:
			if !ok {
				commands = nil
				continue
			}
			over, err = s.obey(c, m)
		case <-ticks:
			over, err = m.Tick()
		case work := <-s.work:
			over, err = work()
		}
		if over || err != nil {
			return err
		}
	}
}

// after is like time.After, but its channel never delivers if d is 0 or less.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

func (s *Session) enable(m *Measurement) error {
	err := m.Enable()
	if err == nil {
		s.Notify("Events enabled")
	}
	return err
}

// obey does what a command of the control descriptor asks for.
func (s *Session) obey(c control.Command, m *Measurement) (over bool, err error) {
	switch c {
	case control.Enable:
		err = s.enable(m)
	case control.Disable:
		if err = m.Disable(); err == nil {
			s.Notify("Events disabled")
		}
	case control.Stop:
		over = true
	}
	if err != nil {
		return false, err
	}
	return over, s.Control.Ack()
}

// End sends the signal that ended the session, or SIGTERM, to a command that still runs, and waits for its end. Another signal to the
// session kills the command. A command that dies of SIGTERM has not failed: its session was over, after a timeout for example.
func (s *Session) End() {
	if s.exited == nil {
		return
	}
	status, next := s.command.End(cmp.Or(s.Signal, os.Signal(syscall.SIGTERM)), s.exited, s.Signals)
	if s.Signal == nil && next == nil && status.Signal == syscall.SIGTERM {
		status.Signal = 0
	}
	s.Result.Command, s.Signal, s.exited = status, cmp.Or(next, s.Signal), nil
}

// Close kills the command if it still runs.
func (s *Session) Close() {
	if s.command != nil {
		s.command.Kill() // does nothing if it has ended
	}
}
