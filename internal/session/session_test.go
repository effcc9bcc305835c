package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/target"
)

// fake is a measurement that records which functions are called.
type fake struct {
	calls []string
	fail  error // of Enable
}

func (f *fake) measurement() *Measurement {
	note := func(s string) { f.calls = append(f.calls, s) }
	return &Measurement{Enable: func() error { note("enable"); return f.fail }, Disable: func() error { note("disable"); return nil }}
}

// controlled returns a control channel that receives the given commands.
func controlled(t *testing.T, commands ...string) *control.Channel {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	c, err := control.Open(fmt.Sprintf("fd:%d", r.Fd()), func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(strings.Join(commands, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWait(t *testing.T) {
	broken := errors.New("broken")
	interrupted := make(chan os.Signal, 1)
	interrupted <- os.Interrupt
	done := make(chan struct{})
	close(done)
	ticks := 0
	for _, tt := range []struct {
		name   string
		spec   Spec
		adjust func(*fake, *Session, *Measurement)
		want   []string // calls, and messages to the user
		err    error
		check  func(*Session) bool
	}{
		{name: "timeout", spec: Spec{Timeout: time.Nanosecond}, check: func(s *Session) bool { return s.TimedOut }},
		{name: "signal", spec: Spec{Signals: interrupted}, check: func(s *Session) bool { return s.Signal == os.Interrupt && !s.TimedOut }},
		{name: "done", spec: Spec{Done: done}, check: func(s *Session) bool { return s.Signal == nil && !s.TimedOut }},
		{name: "control", spec: Spec{Control: controlled(t, "enable", "ping", "disable", "stop")},
			want: []string{"enable", "Events enabled", "disable", "Events disabled"}},
		{name: "delay", spec: Spec{Delay: time.Nanosecond}, adjust: func(f *fake, s *Session, m *Measurement) {
			enable := m.Enable
			m.Enable = func() error {
				go s.Do(func() (bool, error) { return true, nil })
				return enable()
			}
		}, want: []string{"enable", "Events enabled"}},
		{name: "it cannot be enabled", spec: Spec{Delay: time.Nanosecond}, adjust: func(f *fake, s *Session, m *Measurement) { f.fail = broken }, want: []string{"enable"}, err: broken},
		{name: "ticks", adjust: func(f *fake, s *Session, m *Measurement) {
			m.Every, m.Tick = time.Nanosecond, func() (bool, error) { ticks++; return ticks == 3, nil }
		}, check: func(*Session) bool { return ticks == 3 }},
		{name: "ticks begin after the delay", spec: Spec{Delay: time.Millisecond}, adjust: func(f *fake, s *Session, m *Measurement) {
			enabled, enable := false, m.Enable
			m.Enable = func() error {
				enabled = true
				return enable()
			}
			m.Every, m.Tick = time.Nanosecond, func() (bool, error) {
				if !enabled {
					return false, broken
				}
				return true, nil
			}
		}, want: []string{"enable", "Events enabled"}},
		{name: "a tick fails", adjust: func(f *fake, s *Session, m *Measurement) {
			m.Every, m.Tick = time.Nanosecond, func() (bool, error) { return false, broken }
		}, err: broken},
		{name: "the target has gone", spec: Spec{Target: target.Spec{PIDs: []int{1 << 22}}}, adjust: func(f *fake, s *Session, m *Measurement) { m.Threads = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			tt.spec.Notify = func(s string) { f.calls = append(f.calls, s) }
			s, m := New(&tt.spec), f.measurement()
			if tt.adjust != nil {
				tt.adjust(f, s, m)
			}
			if err := s.Wait(m); err != tt.err {
				t.Errorf("it ended with %v, want %v", err, tt.err)
			}
			s.End() // does nothing without a command
			if s.Do(func() (bool, error) { t.Error("work is done after the end"); return true, nil }) {
				t.Error("work is taken after the end")
			}
			if !slices.Equal(f.calls, tt.want) {
				t.Errorf("calls %q, want %q", f.calls, tt.want)
			}
			if tt.check != nil && !tt.check(s) {
				t.Errorf("it ended as %+v", s)
			}
		})
	}
}

// TestCommand runs commands that end by themselves, and commands that End has to end.
func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name    string
		script  string
		signals []os.Signal
		timeout time.Duration
		want    Result

		prepared bool
	}{
		{"by itself", "exit 3", nil, 0, Result{Command: target.Status{Code: 3}}, true},
		{"by SIGTERM", "exec sleep 1000", nil, time.Nanosecond, Result{}, false},
		{"with its own status", "trap 'exit 4' TERM; : > ready; while :; do sleep 0.01; done", nil, time.Nanosecond, Result{Command: target.Status{Code: 4}}, false},
		{"by the session's signal", "exec sleep 1000", []os.Signal{syscall.SIGINT}, 0, Result{Signal: syscall.SIGINT, Command: target.Status{Signal: syscall.SIGINT}}, true},
		{"by SIGKILL", "trap '' INT; : > ready; while :; do sleep 0.01; done", []os.Signal{syscall.SIGINT, syscall.SIGTERM}, 0,
			Result{Signal: syscall.SIGTERM, Command: target.Status{Signal: syscall.SIGKILL}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			signals := make(chan os.Signal, len(tt.signals))
			spec := &Spec{Command: []string{"sh", "-c", tt.script}, Timeout: tt.timeout, Signals: signals}
			s := New(spec)
			defer s.Close()
			if tt.prepared {
				if _, err := s.Prepare(); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Execute(); err != nil {
				t.Fatal(err)
			}
			for strings.Contains(tt.script, "ready") && !exists("ready") { // the command ignores signals from then on
				time.Sleep(time.Millisecond)
			}
			for _, sig := range tt.signals {
				signals <- sig
			}
			if err := s.Wait((&fake{}).measurement()); err != nil {
				t.Fatal(err)
			}
			s.End()
			if got := s.Result; got.Signal != tt.want.Signal || got.Command.Code != tt.want.Command.Code || got.Command.Signal != tt.want.Command.Signal {
				t.Errorf("it ended as %+v, want %+v", s.Result, tt.want)
			}
		})
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
