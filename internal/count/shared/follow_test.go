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

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// perfSession is an upstream perf that counts with --bpf-counters until it is told to end.
type perfSession struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
}

// startPerf starts a session of perf, and returns when it counts.
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
	if _, err := stdout.Read(make([]byte, 64)); err != nil { // perf starts the command when all is set up
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

// kill ends it as nobody would.
func (s *perfSession) kill() {
	s.t.Helper()
	check(s.t, s.cmd.Process.Kill())
	s.stdin.Close() // of its command, which lives on
	s.cmd.Wait()
}

// leads reports whether a session's first event is that of an upstream leader.
func leads(c *Counter) bool { return c.followed[c.events[0].slot] != nil }

// workEvent is an event that grows with the page faults of a puppet: instructions if this machine has a PMU, otherwise the faults themselves.
func workEvent(t *testing.T) string {
	t.Helper()
	attr := perfevent.Attr{Type: perfevent.TypeHardware, Config: 1 /* PERF_COUNT_HW_INSTRUCTIONS */}
	if e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread}); err == nil {
		check(t, e.Close())
		return "instructions"
	}
	return "page-faults"
}

// agree fails where two counts differ by more than half a percent.
func agree(t *testing.T, what string, ours, theirs float64) {
	t.Helper()
	if ours < theirs*0.995 || ours > theirs*1.005 || theirs == 0 {
		t.Errorf("%s: bperf counted %.0f, perf %.0f", what, ours, theirs)
	}
}

// countWork counts how a puppet works: with a session, and with a direct counter in a shorter window.
func countWork(t *testing.T, c *Counter, event string, s target.Spec, p *puppet) (least float64) {
	t.Helper()
	direct := openDirect(t, parseEvents(t, event), resolve(t, s))
	defer direct.Close()
	check(t, c.Enable())
	check(t, direct.Enable())
	p.fault(0, muchWork)
	check(t, direct.Disable())
	check(t, c.Disable())
	return float64(values(t, direct, 1)[0])
}

// between fails where a count is not between those of a shorter and of a longer window, or half a percent away.
func between(t *testing.T, what string, least, ours, most float64) {
	t.Helper()
	if ours < least*0.995 || ours > most*1.005 || least == 0 {
		t.Errorf("%s: bperf counted %.0f, want %.0f to %.0f", what, ours, least, most)
	}
}

// muchWork is so many page faults that the few others of the process do not matter. The process has them itself, as
// perf 6.12 does not count the children of what it shares.
const muchWork = 10_000

// TestFollowPerf lets a session follow a leader that perf has started, and go on with it when that perf is killed, and
// another perf find that leader again.
func TestFollowPerf(t *testing.T) {
	require.UpstreamPerf(t)
	dir := bpffs(t)
	attrs := filepath.Join(filepath.Dir(dir), "perf_attr_map")
	where := Where{Dir: dir, AttrMap: attrs}
	event := workEvent(t)
	p := startPuppet(t)
	p.call(0, 1) // all threads of its runtime are there
	for _, tt := range []struct {
		name    string
		spec    target.Spec
		args    []string
		compare func(t *testing.T, what string, least, ours, theirs float64)
	}{
		{"process", pids(p.pid), []string{"-p", strconv.Itoa(p.pid)}, func(t *testing.T, what string, _, ours, theirs float64) { agree(t, what, ours, theirs) }},
		{"CPUs", system, []string{"-a"}, between}, // these also count what perf does before and after
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := startPerf(t, attrs, event, tt.args...)
			c := openAt(t, where, event, tt.spec, inherit)
			if !leads(c) {
				t.Fatal("the session opened a counter of its own")
			}
			s := examine(t, dir)
			if link := fmt.Sprint("link ", s.Events[0].Leader); s.Events[0].Leader == 0 || tt.name == "process" && hooks(s.Cost)["on_leader"] != link {
				t.Errorf("event %+v, programs %+v", s.Events[0], s.Cost.Programs)
			}
			second := startPerf(t, attrs, event, tt.args...)
			least := countWork(t, c, event, tt.spec, p)
			tt.compare(t, "beside a perf that leads", least, float64(totals(t, c, 1)[0]), second.end())
			if lost, err := c.Lost(); lost != (Lost{}) || err != nil {
				t.Errorf("lost %v, %v, want nothing", lost, err)
			}

			first.kill()
			before := totals(t, c, 1)[0]
			third := startPerf(t, attrs, event, tt.args...)
			least = countWork(t, c, event, tt.spec, p)
			tt.compare(t, "after the perf that led was killed", least, float64(totals(t, c, 1)[0]-before), third.end())
			check(t, c.Close())
		})
	}
}

// TestLeadPerf lets perf follow a leader of ours, and go on with it after we have gone.
func TestLeadPerf(t *testing.T) {
	require.UpstreamPerf(t)
	dir := bpffs(t)
	attrs := filepath.Join(filepath.Dir(dir), "perf_attr_map")
	startPerf(t, attrs, "dummy", "-a").end() // perf takes a map of its own version alone
	where := Where{Dir: dir, AttrMap: attrs, Lead: true}
	event := workEvent(t)
	p := startPuppet(t)
	p.call(0, 1) // all threads of its runtime are there

	c := openAt(t, where, event, pids(p.pid), inherit)
	of := strconv.Itoa(p.pid)
	perf := startPerf(t, attrs, event, "-p", of)
	if n := leadersOf(t, c, attrs); n != 1 {
		t.Fatalf("%d leaders are registered", n)
	}
	check(t, c.Enable())
	p.fault(0, muchWork)
	check(t, c.Disable())
	agree(t, "before a perf that follows", float64(totals(t, c, 1)[0]), perf.end())

	last := startPerf(t, attrs, event, "-p", of)
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
	check(t, c.Enable())
	p.fault(0, muchWork)
	check(t, c.Disable())
	agree(t, "after the session that led has ended", float64(totals(t, c, 1)[0]), last.end())
}

// leadersOf is 1 if the leader that is registered for the first event of a session is the one that it counts with.
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

// TestLeadWithoutTrampolines asks for what this kernel may refuse: then the reason is said, and nothing stays.
func TestLeadWithoutTrampolines(t *testing.T) {
	dir := bpffs(t)
	where := Where{Dir: dir, AttrMap: filepath.Join(filepath.Dir(dir), "perf_attr_map"), Lead: true}
	c, err := Open(where, parseEvents(t, "page-faults"), resolve(t, target.Spec{System: true}), count.Options{})
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

// TestNoAttrMap has something else in the place of perf's map: sessions that do not ask for perf share as ever.
func TestNoAttrMap(t *testing.T) {
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

// openAt opens a session with upstream perf in mind.
func openAt(t *testing.T, where Where, events string, s target.Spec, o count.Options) *Counter {
	t.Helper()
	c, err := Open(where, parseEvents(t, events), resolve(t, s), o)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
