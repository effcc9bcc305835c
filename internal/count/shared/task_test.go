package shared

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	loop "github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestDeadLeader counts a process whose first thread has ended while another thread still works.
func TestDeadLeader(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	tid := p.thread()
	before := start(t, dir, getppid, pids(p.pid), inherit)
	p.order("end", 0)
	for state(t, p.pid) != "Z" {
	}
	after := start(t, dir, getppid, pids(p.pid), inherit)
	thread := start(t, dir, getppid, tids(tid), inherit)
	p.call(1, 7)
	p.run(1, caller(t, 10))
	expect(t, before, "session before its end", 17)
	expect(t, after, "session after its end", 17)
	expect(t, thread, "session on the thread that is left", 17)
}

// TestThreadBecomesAnotherProgram lets a thread that is not the first execute a program: it gets the ID of the first.
func TestThreadBecomesAnotherProgram(t *testing.T) {
	dir := sharing(t)
	p := startPuppet(t)
	tid := p.thread()
	process := start(t, dir, getppid, pids(p.pid), Options{})
	thread := start(t, dir, getppid, tids(tid), Options{})
	first := start(t, dir, getppid, tids(p.pid), Options{})
	program := loop.Program{Body: loop.GetPPID, Times: 7, Wait: true}.Write(t)
	fmt.Fprintln(p.in, "become", 1, program)
	for exe := ""; exe != program; exe, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)) {
	}
	later := start(t, dir, getppid, pids(p.pid), Options{})
	p.end()
	expect(t, process, "process", 7)
	expect(t, thread, "thread that executed it", 7)
	expect(t, first, "first thread, which has ended", 0)
	expect(t, later, "session on the new program", 7)
}

// TestReusedID gives the ID of a counted process to another process.
func TestReusedID(t *testing.T) {
	require.Guest(t)
	dir := sharing(t)
	pid, proceed := waiting(t, loop.Program{Body: loop.GetPPID, Times: 7})
	c := start(t, dir, getppid, pids(pid), inherit)
	proceed()
	check(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0))
	again, proceed := waiting(t, loop.Program{Body: loop.GetPPID, Times: 1000})
	if again != pid {
		t.Fatalf("the next process has the ID %d, want %d again", again, pid)
	}
	next := start(t, dir, getppid, pids(pid), inherit)
	proceed()
	expect(t, c, "the first one's session", 7)
	expect(t, next, "the second one's session", 1000)
}

// TestThreadsThatComeAndGo opens sessions on processes whose threads start and end all the time. After the processes have
// ended, none of their threads is counted. A little later, after the kernel has freed them, the table of tasks has none of them.
func TestThreadsThatComeAndGo(t *testing.T) {
	dir := sharing(t)
	known, counted := tasksOf(t, dir)
	rounds := 20
	if require.IsGuest() {
		rounds = 5
	}
	for range rounds {
		p := startPuppet(t)
		fmt.Fprintln(p.in, "churn")
		var sessions []*Counter
		for range 5 {
			// A session on the threads of one moment.
			c, err := Open(Where{Dir: dir}, parseEvents(t, getppid), resolve(t, pids(p.pid)), inherit)
			check(t, err)
			sessions = append(sessions, c)
		}
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if _, got := tasksOf(t, dir); got > counted {
			t.Fatalf("%d tasks are counted, want %d", got, counted)
		}
		for _, c := range sessions {
			check(t, c.Close())
		}
	}
	got, _ := tasksOf(t, dir)
	for deadline := time.Now().Add(time.Minute); got > known && time.Now().Before(deadline); got, _ = tasksOf(t, dir) {
		time.Sleep(10 * time.Millisecond)
	}
	if got > known {
		t.Errorf("%d tasks are known, want %d", got, known)
	}
}

// tasksOf returns the number of tasks in the table of tasks, and the number of them that are counted.
func tasksOf(t testing.TB, dir string) (known, counted int) {
	t.Helper()
	ids := pinned(t, dir)
	m, err := ebpf.NewMapFromID(ebpf.MapID(ids.Maps[slices.Index(mapNames[:], countersMapTasks)]))
	check(t, err)
	defer m.Close()
	check(t, eachElement(m, func(_ uint64, node uint32) error {
		known++
		if node&exited == 0 {
			counted++
		}
		return nil
	}))
	return known, counted
}
