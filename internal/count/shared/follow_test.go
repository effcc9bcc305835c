package shared

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// perfSession is an upstream perf that counts with --bpf-counters until end.
type perfSession struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
}

// startPerf starts a session of perf, and returns once it counts.
func startPerf(t *testing.T, attrMap, event string, args ...string) *perfSession {
	t.Helper()
	s := &perfSession{t: t}
	args = append([]string{"stat", "--bpf-counters", "--bpf-attr-map", attrMap, "-x;", "-e", event}, args...)
	s.cmd = exec.Command(require.UpstreamPerf(t), append(args, "sh", "-c", "echo counting; exec cat")...)
	s.cmd.Stderr = &s.stderr
	stdin, err := s.cmd.StdinPipe()
	check(t, err)
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	check(t, err)
	check(t, s.cmd.Start())
	t.Cleanup(func() { s.cmd.Process.Kill() })
	if _, err := stdout.Read(make([]byte, 64)); err != nil { // perf starts the command after its own setup
		t.Fatalf("%v: %v\n%s", s.cmd, s.cmd.Wait(), &s.stderr)
	}
	return s
}

// end ends the session and returns what it has counted.
func (s *perfSession) end() float64 {
	s.t.Helper()
	s.stdin.Close()
	err := s.cmd.Wait()
	value, _, _ := strings.Cut(s.stderr.String(), ";")
	n, bad := strconv.ParseFloat(value, 64)
	if err != nil || bad != nil {
		s.t.Fatalf("%v: %v\n%s", s.cmd, err, &s.stderr)
	}
	return n
}

// kill kills perf, but not its command.
func (s *perfSession) kill() {
	s.t.Helper()
	check(s.t, s.cmd.Process.Kill())
	s.stdin.Close() // ends its command, which is still alive
	s.cmd.Wait()
}

// leads reports whether an upstream leader counts a session's first event.
func leads(c *Counter) bool { return c.followed[c.events[0].slot] != nil }

// workEvent returns an event that grows with the page faults of a puppet: instructions if this machine has a PMU, otherwise page-faults.
func workEvent(t *testing.T) string {
	t.Helper()
	attr := perfdata.Attr{Type: perfdata.TypeHardware, Config: 1 /* PERF_COUNT_HW_INSTRUCTIONS */}
	if e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread}); err == nil {
		check(t, e.Close())
		return "instructions"
	}
	return "page-faults"
}

// agree lets a puppet work while four counters count it: a direct counter in the shortest window, a session in a longer one, perf in a still longer one,
// and a direct counter in the longest. Each must count at least as much as the one in the next shorter window, except for half a percent.
func agree(t *testing.T, what, event string, s target.Spec, p *puppet, begin func() (*Counter, *perfSession)) {
	t.Helper()
	longer, shorter := openDirect(t, parseEvents(t, event), resolve(t, s)), openDirect(t, parseEvents(t, event), resolve(t, s))
	defer longer.Close()
	defer shorter.Close()
	check(t, longer.Enable())
	c, perf := begin()
	before := totals(t, c, 1)[0]
	check(t, c.Enable())
	check(t, shorter.Enable())
	p.fault(0, muchWork)
	check(t, shorter.Disable())
	check(t, c.Disable())
	theirs := perf.end()
	check(t, longer.Disable())
	counts := []float64{float64(values(t, shorter, 1)[0]), float64(totals(t, c, 1)[0] - before), theirs, float64(values(t, longer, 1)[0])}
	for i, n := range counts {
		if n == 0 || i > 0 && n < counts[i-1]*0.995 {
			t.Errorf("%s: directly %.0f, bperf %.0f, perf %.0f, directly in a longer window %.0f", what, counts[0], counts[1], counts[2], counts[3])
			return
		}
	}
}

// muchWork is the number of page faults: enough to ignore the few others of the process. The process itself has them, because
// perf 6.12 does not count the children of a target with shared counters.
const muchWork = 10_000

// TestFollowPerf lets a session follow a leader that perf has started. After that perf is killed, the session continues with the leader, and
// another perf finds the leader.
func TestFollowPerf(t *testing.T) {
	require.UpstreamPerf(t)
	dir := bpffs(t)
	attrs := filepath.Join(filepath.Dir(dir), "perf_attr_map")
	where := Where{Dir: dir, AttrMap: attrs}
	event := workEvent(t)
	p := startPuppet(t)
	p.call(0, 1) // all threads of its runtime are there
	for _, tt := range []struct {
		name string
		spec target.Spec
		args []string
	}{
		{"process", pids(p.pid), []string{"-p", strconv.Itoa(p.pid)}},
		{"CPUs", system, []string{"-a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "process" {
				require.OneCPU(t) // emulated counters also count the other CPU's instructions while a switch reads them
			}
			start := func() *perfSession { return startPerf(t, attrs, event, tt.args...) }
			first := start()
			c := openAt(t, where, event, tt.spec, inherit)
			if !leads(c) {
				t.Fatal("the session opened a counter of its own")
			}
			s := examine(t, dir)
			if link := fmt.Sprint("link ", s.Events[0].Leader); s.Events[0].Leader == 0 || tt.name == "process" && hooks(s.Cost)["on_leader"] != link {
				t.Errorf("event %+v, programs %+v", s.Events[0], s.Cost.Programs)
			}
			begin := func() (*Counter, *perfSession) { return c, start() }
			agree(t, "beside a perf that leads", event, tt.spec, p, begin)
			if lost, err := c.Lost(); lost != (Lost{}) || err != nil {
				t.Errorf("lost %v, %v, want nothing", lost, err)
			}

			first.kill()
			agree(t, "after the perf that led was killed", event, tt.spec, p, begin)
			check(t, c.Close())
		})
	}
}

// TestLeadPerf lets perf follow a leader of bperf, and continue with it after bperf's session has ended.
func TestLeadPerf(t *testing.T) {
	require.UpstreamPerf(t)
	dir := bpffs(t)
	attrs := filepath.Join(filepath.Dir(dir), "perf_attr_map")
	startPerf(t, attrs, "dummy", "-a").end() // perf accepts only a map of its own version
	where := Where{Dir: dir, AttrMap: attrs, Lead: true}
	event := workEvent(t)
	p := startPuppet(t)
	p.call(0, 1) // all threads of its runtime are there

	require.OneCPU(t) // as for TestFollowPerf

	c := openAt(t, where, event, pids(p.pid), inherit)
	of := strconv.Itoa(p.pid)
	agree(t, "before a perf that follows", event, pids(p.pid), p, func() (*Counter, *perfSession) {
		perf := startPerf(t, attrs, event, "-p", of)
		if n := leadersOf(t, c, attrs); n != 1 {
			t.Fatalf("%d leaders are registered", n)
		}
		return c, perf
	})
	agree(t, "after the session that led has ended", event, pids(p.pid), p, func() (*Counter, *perfSession) {
		perf := startPerf(t, attrs, event, "-p", of)
		leader := c.followed[c.events[0].slot].leader.Program()
		info, err := leader.Info()
		check(t, err)
		id, _ := info.ID()
		check(t, c.Close())
		c = openAt(t, where, event, pids(p.pid), inherit)
		info, err = c.followed[c.events[0].slot].leader.Program().Info()
		check(t, err)
		if again, _ := info.ID(); again != id {
			t.Errorf("program %d leads, but perf follows program %d", again, id)
		}
		return c, perf
	})
}

// leadersOf returns 1 if the leader registered for a session's first event is the one that counts it, 2 if it is another, and 0 if there is none.
func leadersOf(t *testing.T, c *Counter, path string) int {
	t.Helper()
	attrs, err := upstream.Open(path)
	check(t, err)
	defer attrs.Close()
	check(t, attrs.Lock())
	ours := c.followed[c.events[0].slot].leader
	attr := ours.Attr()
	l, err := attrs.Leader(&attr)
	check(t, err)
	if l == nil {
		return 0
	}
	defer l.Close()
	a, _, err := l.IDs()
	check(t, err)
	b, _, err := ours.IDs()
	check(t, err)
	if a != b {
		return 2
	}
	return 1
}

// TestLeadWithoutTrampolines opens a leader, which this kernel may refuse. Then the error has the reason, and nothing is left.
func TestLeadWithoutTrampolines(t *testing.T) {
	dir := bpffs(t)
	where := Where{Dir: dir, AttrMap: filepath.Join(filepath.Dir(dir), "perf_attr_map"), Lead: true}
	c, err := Open(where, parseEvents(t, "page-faults"), resolve(t, target.Spec{System: true}), Options{})
	if err == nil {
		check(t, c.Close()) // this kernel has trampolines
		return
	}
	if want := "this kernel refuses fexit programs"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %q, want %q in it", err, want)
	}
	if _, err := os.Stat(where.AttrMap); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("look for the attr map: %v, want none", err)
	}
	expectEmpty(t, dir)
}

// TestNoAttrMap pins another object in the place of perf's map: sessions that do not lead for perf share as usual.
func TestNoAttrMap(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	where := Where{Dir: dir, AttrMap: filepath.Join(filepath.Dir(dir), "other")}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	check(t, err)
	defer m.Close()
	check(t, m.Pin(where.AttrMap))
	p := startPuppet(t)
	c := openAt(t, where, getppid, pids(p.pid), inherit)
	check(t, c.Enable())
	p.call(0, 7)
	expect(t, c, "beside another map", 7)
}

// openAt opens a session that may follow or lead upstream perf.
func openAt(t *testing.T, where Where, events string, s target.Spec, o Options) *Counter {
	t.Helper()
	c, err := Open(where, parseEvents(t, events), resolve(t, s), o)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
