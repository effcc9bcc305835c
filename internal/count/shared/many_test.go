package shared

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// manyEvents returns the names of n events.
func manyEvents(t testing.TB, n int) []string {
	t.Helper()
	entries, err := os.ReadDir(require.Tracefs(t) + "/events/syscalls")
	check(t, err)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sys_enter_") && e.Name() != "sys_enter_getppid" {
			names = append(names, "syscalls:"+e.Name())
		}
	}
	if len(names) < n {
		t.Fatalf("this kernel has only %d tracepoints of system calls", len(names))
	}
	return names[:n]
}

// TestManySessions counts one process with more sessions than a trampoline takes programs.
func TestManySessions(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	const n = 42 // a trampoline takes 38 programs (BPF_MAX_TRAMP_LINKS)
	var sessions []*Counter
	for i := range n {
		sessions = append(sessions, start(t, dir, getppid, pids(p.pid), Options{Options: count.Options{Inherit: i%2 == 0}}))
	}
	p.call(0, 7)
	for i, c := range sessions {
		expect(t, c, fmt.Sprint("session ", i), 7)
	}
}

// TestManyEvents counts the maximum number of distinct events at the same time, and more of them one after the other.
func TestManyEvents(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	names := manyEvents(t, 2*maxEvents)
	for some := range slices.Chunk(names, 16) { // and a dummy is open all the time
		c := start(t, dir, strings.Join(append(some, getppid), ","), pids(p.pid), inherit)
		p.call(0, 7)
		if got := totals(t, c, len(some)+1); got[len(some)] != 7 {
			wrong(t, c, "with %d other events: counted %d, want 7", len(some), got[len(some)])
		}
		check(t, c.Close())
	}
	all := append(names[:maxEvents-2:maxEvents-2], getppid)
	c := start(t, dir, strings.Join(all, ","), pids(p.pid), inherit)
	p.call(0, 7)
	if got := totals(t, c, len(all)); got[len(all)-1] != 7 {
		wrong(t, c, "with all events: counted %d, want 7", got[len(all)-1])
	}
	_, err := Open(Where{Dir: dir}, parseEvents(t, names[maxEvents]), resolve(t, pids(p.pid)), inherit)
	if want := "all sessions together share 64 events already: no more can"; err == nil || err.Error() != want {
		t.Errorf("one more: got error %v, want %q", err, want)
	}
	again := start(t, dir, getppid, pids(p.pid), inherit)
	p.call(0, 1)
	expect(t, again, "one of those that are shared", 1)
}

// bogus is an event of a PMU that no machine has.
var bogus = event.Group{Events: []*event.Event{
	{Name: "bogus", PMU: "bogus", Scale: 1, Attr: perfdata.Attr{Type: 0x7fffffff}},
}}

// TestUnsupportedEvents checks that such events have a reason and leave nothing behind, while the session counts its other events.
func TestUnsupportedEvents(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	p := startPuppet(t)
	for name, s := range map[string]target.Spec{"process": pids(p.pid), "system": system} {
		t.Run(name, func(t *testing.T) {
			alone, err := Open(Where{Dir: dir}, event.List{bogus}, resolve(t, s), inherit)
			check(t, err)
			var unsupported *count.Unsupported
			if !errors.As(alone.Err(0), &unsupported) || unsupported.Reason == "" {
				t.Errorf("alone: got %v, want a reason", alone.Err(0))
			}
			if got := pinned(t, dir).Links; got != (ids{}).Links {
				t.Errorf("programs are attached for nothing: %v", got)
			}
			check(t, alone.Close())
			expectEmpty(t, dir)

			both, err := Open(Where{Dir: dir}, append(parseEvents(t, getppid), bogus), resolve(t, s), inherit)
			check(t, err)
			check(t, both.Enable())
			p.call(0, 7)
			if got := totals(t, both, 1)[0]; got < 7 || name == "process" && got != 7 {
				wrong(t, both, "beside it: counted %d, want 7", got)
			}
			if both.Err(0) != nil || both.Err(1) == nil {
				t.Errorf("errors are %v and %v, want none and a reason", both.Err(0), both.Err(1))
			}
			check(t, both.Close())
			expectEmpty(t, dir)
		})
	}
}

// TestPartOfTheCPUs counts one CPU with the first session, and more CPUs with the next ones. Each session's window is within the window of the session
// before, and they share their perf events. So no count may be larger than that of the session before.
func TestPartOfTheCPUs(t *testing.T) {
	dir := sharing(t)
	pid, cpu := startSpinner(t)
	cpus := resolve(t, system).CPUs
	one := start(t, dir, "cpu-clock", target.Spec{CPUs: cpus[:1]}, Options{})
	all := start(t, dir, "cpu-clock", system, Options{})
	last := start(t, dir, "cpu-clock", target.Spec{CPUs: []int{cpu}}, Options{})
	process := start(t, dir, "cpu-clock", pids(pid), Options{})
	const much = uint64(10 * time.Millisecond)
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if totals(t, process, 1)[0] >= much && slices.Min(byCPU(t, all, cpus)) >= much {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, %d ns of the process and %d ns of the CPUs are counted", totals(t, process, 1)[0], byCPU(t, all, cpus))
		}
	}
	for _, c := range []*Counter{process, last, all, one} {
		check(t, c.Disable())
	}
	ofAll := byCPU(t, all, cpus)
	for _, pair := range []struct {
		what         string
		longer, than uint64
	}{
		{"the last CPU, beside the process there", totals(t, last, 1)[0], totals(t, process, 1)[0]},
		{"the last of all CPUs, beside it alone", ofAll[len(cpus)-1], totals(t, last, 1)[0]},
		{"the first CPU alone, beside the first of all", totals(t, one, 1)[0], ofAll[0]},
	} {
		if pair.longer < pair.than {
			wrong(t, process, "%s: counted %d ns, want %d at least", pair.what, pair.longer, pair.than)
		}
	}
}

// byCPU reads a counter of one event on CPUs.
func byCPU(t testing.TB, c *Counter, cpus []int) []uint64 {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	if len(cells) != len(cpus) {
		t.Fatalf("got counts of %d CPUs, want %d", len(cells), len(cpus))
	}
	counts := make([]uint64, len(cpus))
	for i, cpu := range cpus {
		if cells[i].CPU != cpu {
			t.Fatalf("count %d is of CPU %d, want %d", i, cells[i].CPU, cpu)
		}
		counts[i] = cells[i].Value
	}
	return counts
}

// TestFullTasks fills the table of tasks: a session that joins gets an error, and the number of missing children is reported.
func TestFullTasks(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	check(t, os.Mkdir(dir, 0o700))
	spec, err := loadCounters()
	check(t, err)
	const size = 1 << 10 // the real size takes a long time to fill
	spec.Maps[countersMapTasks].MaxEntries = size
	small, err := createFrom(spec, false, nil)
	check(t, err)
	defer small.close()
	check(t, (&directory{path: dir}).store(small.ids))
	open(t, dir, "dummy", tids(os.Getpid()), Options{}) // stays to the end
	p := startPuppet(t)
	c := start(t, dir, getppid, pids(p.pid), inherit)
	tasks := c.o.maps[countersMapTasks]
	const batch = 16
	nodes := make([]uint32, batch)
	for i := range nodes {
		nodes[i] = 1 // of the session that stays
	}
	for first := uint64(1); ; first += batch {
		keys := make([]uint64, batch) // addresses that no task has
		for i := range keys {
			keys[i] = first + uint64(i)
		}
		if _, err := tasks.BatchUpdate(keys, nodes, nil); errors.Is(err, syscall.E2BIG) {
			break
		} else {
			check(t, err)
		}
	}
	p.run(0, caller(t, 100))
	p.call(0, 7)
	expect(t, c, "without the child", 7)
	if lost := lostOf(t, c); lost.Tasks == 0 || lost != (Lost{Tasks: lost.Tasks}) {
		t.Errorf("lost %+v, want the child", lost)
	}
	pid, _ := waiting(t, spin)
	_, err = Open(Where{Dir: dir}, parseEvents(t, getppid), resolve(t, pids(pid)), inherit)
	if want := fmt.Sprintf("no room is left: all sessions together can count %d tasks at a time", size); err == nil || err.Error() != want {
		t.Errorf("one more: got error %v, want %q", err, want)
	}
}
