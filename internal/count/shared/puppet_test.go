package shared

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// puppet is a process that carries out orders, on the thread that the order names. It calls getppid
// only on order.
type puppet struct {
	t   testing.TB
	cmd *exec.Cmd // nil if another puppet has started it
	pid int
	in  io.WriteCloser
	out *bufio.Reader
}

func startPuppet(t testing.TB) *puppet {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "helper", "puppet")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	p := &puppet{t: t, cmd: cmd, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	t.Cleanup(p.end)
	return p
}

// end ends the process, unless it has already ended.
func (p *puppet) end() {
	p.in.Close()
	if p.cmd != nil {
		p.cmd.Wait()
		return
	}
	p.out.ReadString(0) // until it is closed
}

// order sends an order and returns the answer after it is carried out.
func (p *puppet) order(words ...any) string {
	p.t.Helper()
	fmt.Fprintln(p.in, words...)
	line, err := p.out.ReadString('\n')
	answer, done := strings.CutPrefix(strings.TrimSpace(line), "done")
	if err != nil || !done {
		p.t.Fatalf("puppet %d said %q (%v) to %v", p.pid, line, err, words)
	}
	return strings.TrimSpace(answer)
}

// thread starts a thread. Threads are numbered in the order of their start.
func (p *puppet) thread() (tid int) { p.t.Helper(); return atoi(p.order("thread")) }

// call lets a thread call getppid.
func (p *puppet) call(thread int, times uint64) { p.t.Helper(); p.order("call", thread, times) }

// fault lets a thread have page faults.
func (p *puppet) fault(thread int, times int) { p.t.Helper(); p.order("fault", thread, times) }

// run lets a thread run a program to its end.
func (p *puppet) run(thread int, program string) { p.t.Helper(); p.order("run", thread, program) }

// puppet lets a thread start another puppet.
func (p *puppet) puppet(thread int) *puppet {
	p.t.Helper()
	inOf, in, err := os.Pipe()
	check(p.t, err)
	out, outOf, err := os.Pipe()
	check(p.t, err)
	defer inOf.Close()
	defer outOf.Close()
	name := func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }
	pid := atoi(p.order("puppet", thread, name(inOf), name(outOf)))
	child := &puppet{t: p.t, pid: pid, in: in, out: bufio.NewReader(out)}
	p.t.Cleanup(child.end)
	return child
}

// puppetry is the state inside a puppet. Thread 0 is the process's first thread, until it gets the order to end.
type puppetry struct {
	first   <-chan func()
	threads []chan func() // belongs to the goroutine that reads orders
}

func newPuppetry() *puppetry {
	first := make(chan func())
	return &puppetry{first: first, threads: []chan func(){first}}
}

func (p *puppetry) obey() {
	go p.readOrders()
	for f := range p.first {
		f()
	}
}

func (p *puppetry) readOrders() {
	defer os.Exit(0)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		answer, err := p.carryOut(words[0], words[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		fmt.Println("done", answer)
	}
}

func (p *puppetry) carryOut(order string, args []string) (answer string, err error) {
	switch order {
	case "thread":
		return strconv.Itoa(p.start()), nil
	case "churn": // threads that end, as fast as they can be started
		for {
			done := make(chan bool)
			go func() {
				runtime.LockOSThread() // the thread ends with the goroutine
				close(done)
			}()
			<-done
		}
	}
	thread, args := p.threads[atoi(args[0])], args[1:]
	done := make(chan bool)
	thread <- func() {
		defer close(done)
		switch order {
		case "call":
			calls(atoi(args[0]))
		case "fault":
			err = faults(atoi(args[0]))
		case "run":
			err = exec.Command(args[0]).Run()
		case "puppet":
			answer, err = startChild(args[0], args[1])
		case "wander":
			err = wander(args)
		case "become": // another program: does not return
			err = syscall.Exec(args[0], args, nil)
		case "end": // the thread, but not the process
			go func() { done <- true }()
			syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		}
	}
	<-done
	return answer, err
}

// start starts a thread and returns its ID.
func (p *puppetry) start() (tid int) {
	thread := make(chan func())
	started := make(chan int)
	go func() {
		runtime.LockOSThread()
		started <- syscall.Gettid()
		for f := range thread {
			f()
		}
	}()
	p.threads = append(p.threads, thread)
	return <-started
}

// calls calls getppid n times; nothing else in the process calls it.
func calls(n int) {
	for range n {
		syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	}
}

// faults has a page fault for each page of a new mapping.
func faults(n int) error {
	page := os.Getpagesize()
	pages, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	err = unix.Madvise(pages, unix.MADV_NOHUGEPAGE) // one fault of a huge page would make many pages
	if errors.Is(err, unix.EINVAL) {
		err = nil // the kernel has no huge pages
	}
	for i := range n {
		pages[i*page] = 1
	}
	return errors.Join(err, unix.Munmap(pages))
}

func startChild(in, out string) (pid string, err error) {
	cmd := exec.Command("/proc/self/exe", "helper", "puppet")
	cmd.Stderr = os.Stderr
	r, err := os.Open(in)
	if err != nil {
		return "", err
	}
	defer r.Close()
	w, err := os.OpenFile(out, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer w.Close()
	cmd.Stdin, cmd.Stdout = r, w
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go cmd.Wait()
	return strconv.Itoa(cmd.Process.Pid), nil
}

// wander moves this process from one cgroup to the next and calls getppid once in the first, twice in the second and so on,
// hardly ever leaving the CPU.
func wander(dirs []string) error {
	var procs []uintptr
	for _, dir := range dirs {
		fd, err := syscall.Open(filepath.Join(dir, "cgroup.procs"), syscall.O_WRONLY, 0)
		if err != nil {
			return err
		}
		procs = append(procs, uintptr(fd))
	}
	self := uintptr(unsafe.Pointer(unsafe.StringData("0")))
	for i, fd := range procs {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, self, 1); errno != 0 {
			return errno
		}
		calls(i + 1)
	}
	return nil
}
