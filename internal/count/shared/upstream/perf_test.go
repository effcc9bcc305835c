package upstream

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// session is a perf that counts with --bpf-counters until end.
type session struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
}

// perf starts a session with an attr map, and returns once it counts.
func perf(t *testing.T, path, event string) *session {
	t.Helper()
	s := &session{}
	s.cmd = exec.Command(require.UpstreamPerf(t), "stat", "--bpf-counters", "--bpf-attr-map", path, "-x;", "-a", "-e", event,
		"sh", "-c", "echo counting; exec cat")
	s.cmd.Stderr = &s.stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	if _, err := stdout.Read(make([]byte, 64)); err != nil { // perf starts the command after its own setup
		t.Fatalf("%v: %v\n%s", s.cmd, s.cmd.Wait(), &s.stderr)
	}
	return s
}

// end ends the session and returns what it has counted.
func (s *session) end(t *testing.T) float64 {
	t.Helper()
	s.stdin.Close()
	err := s.cmd.Wait()
	value, _, _ := strings.Cut(s.stderr.String(), ";")
	n, bad := strconv.ParseFloat(value, 64) // clocks have decimals
	if err != nil || bad != nil {
		t.Fatalf("%v: %v\n%s", s.cmd, err, &s.stderr)
	}
	return n
}

// perfMap is an attr map that perf has made.
func perfMap(t *testing.T) *AttrMap {
	t.Helper()
	path := filepath.Join(bpffs(t), "map")
	perf(t, path, "dummy").end(t)
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// lookUp looks for a leader in a map that perf uses, too.
func lookUp(t *testing.T, a *AttrMap, attr *perfdata.Attr) *Leader {
	t.Helper()
	if err := a.Lock(); err != nil {
		t.Fatal(err)
	}
	defer unlock(t, a)
	l, err := a.Leader(attr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestFindPerf finds the leaders that perf starts, whatever modifiers their events have.
func TestFindPerf(t *testing.T) {
	require.UpstreamPerf(t)
	const hw, sw = perfdata.TypeHardware, perfdata.TypeSoftware
	tests := []struct {
		event string
		attr  perfdata.Attr
	}{
		{"cpu-clock", event(sw, 0, 0)},
		{"cpu-clock:b", event(sw, 0, 0)},
		{"cpu-clock:u", event(sw, 0, user)},
		{"cpu-clock:k", event(sw, 0, kern)},
		{"cpu-clock:uk", event(sw, 0, perfdata.AttrExcludeHV)},
		{"cpu-clock:H", event(sw, 0, host)},
		{"context-switches", event(sw, perfdata.SoftwareContextSwitches, 0)},
		{"cycles", event(hw, 0, 0)},
		{"instructions:u", event(hw, 1, user)},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			if tt.attr.Type == hw {
				require.PMU(t)
			}
			a := perfMap(t)
			p := perf(t, a.path, tt.event)
			l := lookUp(t, a, &tt.attr)
			if l == nil {
				t.Fatal("found no leader")
			}
			defer l.Close()
			if all, err := l.Covers(usable(t, 1)); !all || err != nil {
				t.Errorf("Covers = %v, %v", all, err)
			}
			p.end(t)
			if all, err := l.Covers(usable(t, 1)); !all || err != nil {
				t.Errorf("when perf has ended, Covers = %v, %v", all, err)
			}
			l.Close()
			if l := lookUp(t, a, &tt.attr); l != nil {
				t.Errorf("found %v when all have ended", l)
			}
		})
	}
}

// TestPerfFindsOurs lets perf follow a leader of bperf, even after bperf has ended.
func TestPerfFindsOurs(t *testing.T) {
	require.UpstreamPerf(t)
	a := perfMap(t)
	faults := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults}
	own := start(t, a.Attr(&faults), usable(t, 1)...)
	if err := a.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := a.Register(own); err != nil {
		t.Fatal(err)
	}
	unlock(t, a)
	ours, err := own.entry()
	if err != nil {
		t.Fatal(err)
	}

	p := perf(t, a.path, "page-faults")
	own.Close()
	found := lookUp(t, a, &faults)
	if found == nil {
		t.Fatal("the leader went though perf follows it")
	}
	defer found.Close()
	if e, err := found.entry(); e != ours || err != nil {
		t.Errorf("perf follows %v, not %v, %v", e, ours, err)
	}
	before := total(t, found)
	touch := program.Program{Body: program.Touch, Times: program.MaxPages}
	if err := exec.Command(touch.Write(t)).Run(); err != nil {
		t.Fatal(err)
	}
	counted := total(t, found) - before
	if got := p.end(t); got < float64(counted) || counted < program.MaxPages {
		t.Errorf("perf counted %g page faults, while the leader counted %d", got, counted)
	}
}

// total returns a leader's count on all CPUs up to now.
func total(t *testing.T, l *Leader) uint64 {
	t.Helper()
	var sum uint64
	for _, cpu := range usable(t, 1) {
		if err := l.Run(cpu); err != nil {
			t.Fatal(err)
		}
		sum += reading(t, l, "prev", cpu).Value
	}
	return sum
}
