package direct

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// The test binary contains the programs to measure: with "helper" as first argument, the second
// names the program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		helpers[os.Args[2]](os.Args[3:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var helpers = map[string]func(args []string){
	"getppid":  func(args []string) { getppid(atoi(args[0])) },
	"children": children,
	"obey":     obey,
	"denied":   printOpenError,
	"emfile":   printFileLimitError,
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// getppid calls the system call getppid, which nothing else here calls, the given number of times.
func getppid(n int) {
	for range n {
		syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	}
}

// children runs "getppid" a number of times.
func children(args []string) {
	for range atoi(args[0]) {
		if err := exec.Command("/proc/self/exe", "helper", "getppid", args[1]).Run(); err != nil {
			panic(err)
		}
	}
}

// obey starts the number of threads in its argument, prints "ready" and obeys the lines of its standard
// input: with "each N" each thread calls getppid N times; with "spawn N" a new thread does.
func obey(args []string) {
	var ready, done sync.WaitGroup
	threads := atoi(args[0])
	orders := make([]chan int, threads)
	for i := range orders {
		orders[i] = make(chan int)
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			for n := range orders[i] {
				getppid(n)
				done.Done()
			}
		}()
	}
	ready.Wait()
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		order, n, _ := strings.Cut(lines.Text(), " ")
		switch order {
		case "each":
			done.Add(threads)
			for _, c := range orders {
				c <- atoi(n)
			}
		case "spawn":
			done.Add(1)
			go func() {
				runtime.LockOSThread() // ends with the goroutine: the thread is a new one
				getppid(atoi(n))
				done.Done()
			}()
		}
		done.Wait()
		fmt.Println("done")
	}
}

// puppet is a process that runs obey.
type puppet struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPuppet(t testing.TB, threads int) *puppet {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "helper", "obey", strconv.Itoa(threads))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	p := &puppet{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(p.end)
	p.expect("ready")
	return p
}

func (p *puppet) pid() int { return p.cmd.Process.Pid }

func (p *puppet) expect(want string) {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil || line != want+"\n" {
		p.t.Fatalf("helper said %q (%v), want %q", line, err, want)
	}
}

func (p *puppet) order(format string, args ...any) {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	p.expect("done")
}

func (p *puppet) end() {
	p.in.Close()
	p.cmd.Wait()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// getppidEvent returns the tracepoint of getppid, for the threads that pass the filter, or all.
func getppidEvent(t testing.TB, filter string) *event.Event {
	t.Helper()
	id, err := os.ReadFile(require.Tracefs(t) + "/events/syscalls/sys_enter_getppid/id")
	if err != nil {
		t.Fatalf("this kernel has no tracepoints for system calls (CONFIG_FTRACE_SYSCALLS): %v", err)
	}
	const name = "syscalls:sys_enter_getppid"
	return &event.Event{
		Name:       name,
		Tracepoint: name,
		PMU:        "tracepoint",
		Attr:       perfdata.Attr{Type: perfdata.TypeTracepoint, Config: uint64(atoi(strings.TrimSpace(string(id))))},
		Scale:      1,
		Filter:     filter,
	}
}

func software(name string, config uint64) *event.Event {
	return &event.Event{Name: name, PMU: "software", Scale: 1,
		Attr: perfdata.Attr{Type: perfdata.TypeSoftware, Config: config}}
}

func hardwareEvent(name string, config uint64) *event.Event {
	return &event.Event{Name: name, PMU: "cpu", Scale: 1,
		Attr: perfdata.Attr{Type: perfdata.TypeHardware, Config: config}}
}

// single returns a list without groups.
func single(events ...*event.Event) event.List {
	var list event.List
	for _, e := range events {
		list = append(list, event.Group{Events: []*event.Event{e}})
	}
	return list
}

func resolve(t testing.TB, s target.Spec) target.Target {
	t.Helper()
	resolved, err := s.Resolve()
	check(t, err)
	return resolved
}

func openCounter(t testing.TB, list event.List, at target.Target, o count.Options) *Counter {
	t.Helper()
	c, err := Open(list, at, o)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	for i := range list.Events() {
		if err := c.Err(i); err != nil {
			t.Logf("event %d: %v", i, err)
		}
	}
	return c
}

// openProcess opens events for a process. As sessions do, it repeats that until no thread has started while it opened them.
func openProcess(t testing.TB, list event.List, pid int, o count.Options) *Counter {
	t.Helper()
	spec := target.Spec{PIDs: []int{pid}}
	for {
		at := resolve(t, spec)
		c := openCounter(t, list, at, o)
		if resolve(t, spec).SameThreads(at) {
			return c
		}
	}
}

// totals reads the counter and adds up each event; it fails if one is scaled or was not counted.
func totals(t testing.TB, c *Counter, events int) []uint64 {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	sums := make([]uint64, events)
	for _, cell := range cells {
		if cell.Running != cell.Enabled {
			t.Errorf("cell %+v is scaled", cell)
		}
		sums[cell.Event] += cell.Value
	}
	return sums
}
