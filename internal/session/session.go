// Package session runs what stat and record have in common: a session starts a command or watches a target, starts and stops its events, and ends with
// the command, the target, the time, a signal, or on request.
package session

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/target"
)

// Spec says who is measured, and for how long.
type Spec struct {
	Target  target.Spec
	Command []string // is measured if Target is empty; with a Target it only says how long

	Delay         time.Duration    // the events start this long after the session
	StartDisabled bool             // the events start when Control says so
	Timeout       time.Duration    // the session ends after it; 0 for never
	Control       *control.Channel // nil without one
	Signals       <-chan os.Signal // each ends the session

	Notify func(string) // gets lines for the user: "Events enabled", warnings
}

// CommandIsTarget reports whether the command is measured, rather than a target while the command runs.
func (s *Spec) CommandIsTarget() bool { return len(s.Command) > 0 && s.Target.Nobody() }

// Waits reports whether the events start later than the session.
func (s *Spec) Waits() bool { return s.Delay > 0 || s.StartDisabled }

// Result says how a session ended.
type Result struct {
	Signal  os.Signal     // that ended it, or nil
	Command target.Status // zero without a command
}

// Session is a session that runs.
type Session struct {
	*Spec
	Result
	TimedOut bool // Timeout ended it

	command *target.Command // nil without one
	exited  <-chan target.Status
	work    chan func() (over bool, err error)
	over    chan struct{}
}

// New returns a session that has not begun.
func New(spec *Spec) *Session {
	return &Session{Spec: spec, work: make(chan func() (bool, error)), over: make(chan struct{})}
}

// Prepare starts the command as far as that it waits for Execute, and returns its thread.
func (s *Session) Prepare() (t target.Thread, err error) {
	if s.command, err = target.StartCommand(s.Spec.Command); err != nil {
		return t, err
	}
	return target.Thread{TID: s.command.PID(), PID: s.command.PID(), Comm: s.Spec.Command[0]}, nil
}

// Execute executes the command, if there is one.
func (s *Session) Execute() (err error) {
	switch {
	case len(s.Spec.Command) == 0:
		return nil
	case s.command != nil:
		err = s.command.Exec()
	default: // it was not prepared
		s.command, err = target.RunCommand(s.Spec.Command)
	}
	if err == nil {
		s.exited = s.command.Exited()
	}
	return err
}

// Measurement is what a session measures with. Its functions are called one at a time, by the goroutine of Wait.
type Measurement struct {
	Enable, Disable func() error // start and stop the events
	Threads         bool         // the target is threads: the session ends when all have ended, unless there is a command

	Every time.Duration                 // between two calls of Tick; 0 for none
	Tick  func() (over bool, err error) // may end the session
}

// Do has the goroutine of Wait call f, which may end the session. It returns false if the session is over.
func (s *Session) Do(f func() (over bool, err error)) bool {
	select {
	case s.work <- f:
		return true
	case <-s.over:
		return false
	}
}

// Over is closed when Wait has returned.
func (s *Session) Over() <-chan struct{} { return s.over }

// Wait returns when the session is over, or with the first error of the measurement. A command may still run: see End. It is called once.
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
	if m.Every > 0 {
		t := time.NewTicker(m.Every)
		defer t.Stop()
		ticks = t.C
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
		case <-timeout:
			s.TimedOut = true
			return nil
		case <-ended:
			return nil
		case <-delay:
			err = s.enable(m)
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

// after is time.After, but never for no time.
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

// obey does what the control descriptor says.
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

// End ends a command that still runs, and waits for its end: with the signal that ended the session, or SIGTERM. One more signal kills it.
func (s *Session) End() {
	if s.exited == nil {
		return
	}
	status, next := s.command.End(cmp.Or(s.Signal, os.Signal(syscall.SIGTERM)), s.exited, s.Signals)
	s.Result.Command, s.Signal, s.exited = status, cmp.Or(next, s.Signal), nil
}

// Close kills a command that still runs.
func (s *Session) Close() {
	if s.command != nil {
		s.command.Kill() // does nothing when it has ended
	}
}
