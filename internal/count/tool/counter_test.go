package tool

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// machine is a fake /proc and /sys that tests change between readings.
type machine fstest.MapFS

func (m machine) set(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text)} }

// task writes a stat file with utime, stime, cutime and cstime in ticks.
func (m machine) task(dir string, utime, stime, cutime, cstime int) {
	m.set(dir+"/stat", fmt.Sprintf("7 (a) b) S 1 7 7 0 -1 4194560 10 0 0 0 %d %d %d %d 20 0 1 0\n", utime, stime, cutime, cstime))
}

func list() event.List {
	var l event.List
	for _, e := range []event.Event{
		{Name: "cycles"},
		{Name: "duration_time", Tool: event.DurationTime},
		{Name: "user_time", Tool: event.UserTime},
		{Name: "system_time", Tool: event.SystemTime},
	} {
		l = append(l, event.Group{Events: []*event.Event{&e}})
	}
	return l
}

// values returns the cells with a value of 0 for duration_time, after it has checked the times.
func values(t *testing.T, c *Counter) []count.Cell {
	t.Helper()
	cells, err := c.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cells {
		cell := &cells[i]
		if cell.Enabled != cell.Running || cell.Event == 1 && cell.Value != cell.Enabled {
			t.Errorf("cell %+v: the times differ", *cell)
		}
		if cell.Event == 1 {
			cell.Value = 0
		}
	}
	return cells
}

const none = count.None

func cell(event, cpu, thread, cgroup int, value time.Duration) count.Cell {
	return count.Cell{Event: event, CPU: cpu, Thread: thread, Cgroup: cgroup, Program: count.None, Reading: perfevent.Reading{Value: uint64(value)}}
}

func compare(t *testing.T, c *Counter, want ...count.Cell) {
	t.Helper()
	if diff := cmp.Diff(want, values(t, c), cmpopts.IgnoreFields(perfevent.Reading{}, "Enabled", "Running")); diff != "" {
		t.Error(diff)
	}
}

func openTool(t *testing.T, m machine, at target.Target, o Options) *Counter {
	t.Helper()
	c, err := open(fstest.MapFS(m), list(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func enable(t *testing.T, c *Counter) {
	t.Helper()
	if err := c.Enable(); err != nil {
		t.Fatal(err)
	}
}

func disable(t *testing.T, c *Counter) {
	t.Helper()
	if err := c.Disable(); err != nil {
		t.Fatal(err)
	}
}

const ms = time.Millisecond

func TestThreads(t *testing.T) {
	m := machine{}
	m.task("proc/7/task/7", 100, 10, 99, 99)
	m.task("proc/7/task/8", 200, 20, 99, 99)
	at := target.Target{Threads: []target.Thread{{TID: 7, PID: 7}, {TID: 8, PID: 7}}}
	c := openTool(t, m, at, Options{})
	compare(t, c, cell(1, none, none, none, 0),
		cell(2, none, 0, none, 0), cell(2, none, 1, none, 0), cell(3, none, 0, none, 0), cell(3, none, 1, none, 0))
	enable(t, c)
	m.task("proc/7/task/7", 103, 10, 99, 99)
	m.task("proc/7/task/8", 200, 21, 99, 99)
	want := []count.Cell{cell(1, none, none, none, 0),
		cell(2, none, 0, none, 30*ms), cell(2, none, 1, none, 0), cell(3, none, 0, none, 0), cell(3, none, 1, none, 10*ms)}
	compare(t, c, want...)
	disable(t, c)
	m.task("proc/7/task/7", 500, 500, 0, 0) // while disabled
	compare(t, c, want...)
	enable(t, c)
	m.task("proc/7/task/7", 501, 500, 0, 0)
	delete(m, "proc/7/task/8/stat") // it ended
	compare(t, c, cell(1, none, none, none, 0),
		cell(2, none, 0, none, 40*ms), cell(2, none, 1, none, 0), cell(3, none, 0, none, 0), cell(3, none, 1, none, 10*ms))
}

func TestProcessInherits(t *testing.T) {
	m := machine{}
	m.task("proc/7", 100, 10, 0, 0)
	m.task("proc/7/task/7", 1, 1, 0, 0)
	m.task("proc/7/task/8", 1, 1, 0, 0)
	m.task("proc/9", 1, 1, 0, 0)
	m.task("proc/9/task/9", 50, 5, 0, 0)
	m.task("proc/9/task/10", 1, 1, 0, 0) // not measured
	at := target.Target{Threads: []target.Thread{{TID: 7, PID: 7}, {TID: 8, PID: 7}, {TID: 9, PID: 9}}}
	c := openTool(t, m, at, Options{Inherit: true})
	enable(t, c)
	m.task("proc/7", 101, 10, 2, 3)
	m.task("proc/9/task/9", 51, 5, 7, 7)
	compare(t, c, cell(1, none, none, none, 0),
		cell(2, none, 0, none, 30*ms), cell(2, none, 2, none, 10*ms), cell(3, none, 0, none, 30*ms), cell(3, none, 2, none, 0))
	delete(m, "proc/7/stat")
	c.Finish(3*time.Second, 4*time.Second)
	if cells := values(t, c); cells[1].Value != 3e9 || cells[3].Value != 4e9 {
		t.Errorf("cells %+v, want 3 s of user and 4 s of system time as handed over", cells)
	}
}

func TestCPUs(t *testing.T) {
	m := machine{}
	m.set("proc/stat", "ctxt 1\ncpu  9 9 9 9 9 9 9 9\ncpu0 100 10 20 1000 5 1 2 0 0 0\ncpu1 200 0 0 1000 0 0 0 0 0 0\nintr 1 2 3\n")
	c := openTool(t, m, target.Target{CPUs: []int{0, 1}}, Options{})
	enable(t, c)
	m.set("proc/stat", "ctxt 1\ncpu0 101 11 22 2000 9 2 4 0 0 0\n") // CPU 1 went offline
	compare(t, c, cell(1, none, none, none, 0),
		cell(2, 0, none, none, 20*ms), cell(2, 1, none, none, 0), cell(3, 0, none, none, 50*ms), cell(3, 1, none, none, 0))
}

func TestCgroups(t *testing.T) {
	m := machine{}
	m.set("sys/devices/system/cpu/online", "0-1\n")
	m.set("cg/a/cpu.stat", "usage_usec 30\nuser_usec 10\nsystem_usec 20\n")
	at := target.Target{CPUs: []int{0, 1}, Cgroups: []target.Cgroup{{Name: "a", Path: "/cg/a"}}}
	c := openTool(t, m, at, Options{})
	enable(t, c)
	m.set("cg/a/cpu.stat", "usage_usec 60\nuser_usec 11\nsystem_usec 49\n")
	compare(t, c, cell(1, none, none, 0, 0), cell(2, none, none, 0, time.Microsecond), cell(3, none, none, 0, 29*time.Microsecond))
}

func TestUnknownTimesOfCgroup(t *testing.T) {
	m := machine{}
	m.set("sys/devices/system/cpu/online", "0-1\n")
	m.set("cg/old/tasks", "")
	m.set("cg/odd/cpu.stat", "user_usec x\n")
	m.set("cg/short/cpu.stat", "user_usec 1\n")
	tests := []struct {
		path string
		cpus []int
		want string
	}{
		{"/cg/old", []int{0, 1}, "user_time: The CPU times of cgroup g are not known: open cg/old/cpu.stat: file does not exist. Only cgroup v2 has them."},
		{"/cg/odd", []int{0, 1}, `user_time: The CPU times of cgroup g are not known: /cg/odd/cpu.stat: user_usec "x" is not a number. Only cgroup v2 has them.`},
		{"/cg/short", []int{0, 1}, "user_time: The CPU times of cgroup g are not known: /cg/short/cpu.stat has no user_usec and system_usec. Only cgroup v2 has them."},
		{"/cg/short", []int{0}, "user_time: The kernel knows the CPU times of a cgroup for all CPUs together only. Leave out -C."},
	}
	for _, tt := range tests {
		c := openTool(t, m, target.Target{CPUs: tt.cpus, Cgroups: []target.Cgroup{{Name: "g", Path: tt.path}}}, Options{})
		if err := c.Err(2); err == nil || err.Error() != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
		if c.Err(0) != nil || c.Err(1) != nil {
			t.Errorf("errors %v and %v for the events that are known", c.Err(0), c.Err(1))
		}
		compare(t, c, cell(1, none, none, 0, 0))
	}
}

func TestDamagedProc(t *testing.T) {
	thread := target.Target{Threads: []target.Thread{{TID: 7, PID: 7}}}
	tests := []struct {
		file, text string
		at         target.Target
		want       string
	}{
		{"proc/7/task/7/stat", "7 (a) S 1", thread, "read CPU times: /proc/7/task/7/stat is cut short"},
		{"proc/7/task/7/stat", "7 (a) S" + strings.Repeat(" x", 30), thread, `read CPU times: /proc/7/task/7/stat: "x" is not a number of clock ticks`},
		{"proc/stat", "cpu0 1 2 x 4 5 6 7 8\n", target.Target{CPUs: []int{0}}, `read CPU times: /proc/stat: "x" is not a number of clock ticks`},
		{"proc/stat", "cpux 1 2 3 4 5 6 7 8\n", target.Target{CPUs: []int{0}}, `read CPU times: /proc/stat: "cpux" is not a CPU`},
		{"proc/other", "", target.Target{CPUs: []int{0}}, "read CPU times: read /proc/stat: file does not exist"},
	}
	for _, tt := range tests {
		m := machine{}
		m.set(tt.file, tt.text)
		c := openTool(t, m, tt.at, Options{})
		if err := c.Enable(); err == nil || err.Error() != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}

func TestDuration(t *testing.T) {
	c, err := Open(list()[1:2], target.Target{CPUs: []int{0}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	enable(t, c)
	time.Sleep(5 * ms)
	disable(t, c)
	first := values(t, c)[0].Enabled
	time.Sleep(5 * ms)
	if again := values(t, c)[0].Enabled; again != first {
		t.Errorf("%d ns, then %d while disabled", first, again)
	}
	enable(t, c)
	second := values(t, c)[0].Enabled
	if d := uint64(time.Since(start)); first < uint64(5*ms) || second <= first || second > d-uint64(5*ms) {
		t.Errorf("%d ns, then %d, in %d of which 5 ms at least were disabled", first, second, d)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
