package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/stacks"
)

// What the daemon is measured with.
const (
	pods       = 110
	busyPods   = 2
	sixEvents  = "task-clock,page-faults,minor-faults,major-faults,context-switches,cpu-migrations" // which every machine has
	scrapes    = 10
	warmUp     = 30 * time.Second // of the daemon, before it is measured
	rowsOfRun  = 10               // at least
	longestRow = 30 * time.Second
	scrapeRate = 15 * time.Second // between scrapes while the daemon is measured
	busyStacks = 64               // different stacks of a busy container
)

// busyVariable is the environment variable that turns a new process of this program into a busy container.
const busyVariable = "BPERF_BENCH_BUSY"

// spin uses a CPU until it is killed. It gives way to everything else on the machine.
func spin() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("lower the priority of a busy container: %w", err)
	}
	block := make([]byte, 4096)
	for {
		stacks.Walk(busyStacks, func() { sha256.Sum256(block) })
	}
}

// daemon is bperf serve, which profiles and pushes to a server of this process.
type daemon struct {
	cmd    *exec.Cmd
	log    bytes.Buffer // may be read after the end
	client *http.Client
	server *httptest.Server // takes the profiles
}

// serve prints what bperf serve takes, with containers of which one is replaced each second. With a name, it draws it to this SVG file too.
func (b *bench) serve(long time.Duration, svg string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := newNode(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.remove()) }()
	for range pods {
		if err := n.add(); err != nil {
			return err
		}
	}
	d, err := startDaemon(b.bperf, dir)
	if err != nil {
		return err
	}
	defer func() {
		if end := d.stop(); end != nil {
			err = errors.Join(err, fmt.Errorf("bperf serve: %w\n%s", end, &d.log))
		}
	}()
	fmt.Printf("%d containers, %d of them busy, one replaced each second; 6 events; profiles at 19 Hz; CPU time of %d CPUs\n", pods, busyPods, runtime.NumCPU())
	if err := n.churn(ctx, warmUp, d.scrape); err != nil {
		return err
	}
	all, err := d.measure(ctx, n, long)
	if err != nil {
		return err
	}
	if svg != "" {
		if err := os.WriteFile(svg, drawUsage(all), 0o644); err != nil {
			return err
		}
	}
	for _, compressed := range []bool{false, true} {
		if err := d.printScrapes(compressed); err != nil {
			return err
		}
	}
	return nil
}

// node is a parent of cgroups that look like those of pods, with a process each.
type node struct {
	dir    string // of files
	parent string
	all    []*container // the busy ones first, the others by age
	made   int
}

// container is a cgroup in one of a pod, and its process.
type container struct {
	pod, dir string
	file     string // the executable, of its own
	cmd      *exec.Cmd
}

func newNode(dir string) (*node, error) {
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, parent: filepath.Join(root, fmt.Sprintf("bperf_bench_%d.slice", os.Getpid()))}
	return n, os.Mkdir(n.parent, 0o755)
}

// add makes a container. Its process runs a while and then waits; those of the first containers run without end.
func (n *node) add() (err error) {
	c := &container{pod: filepath.Join(n.parent, fmt.Sprintf("kubepods-pod%08x_0000_4000_8000_%012x.slice", os.Getpid(), n.made))}
	c.dir = filepath.Join(c.pod, fmt.Sprintf("cri-containerd-%064x.scope", n.made))
	c.file = filepath.Join(n.dir, strconv.Itoa(n.made))
	busy := n.made < busyPods
	n.made++
	n.all = append(n.all, c)
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	group, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	defer group.Close()
	program := "/bin/sh"
	if busy {
		program = "/proc/self/exe"
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file, content, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(c.file, "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exec sleep 1000000")
	cmd.Env = append(os.Environ(), busyVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd = cmd
	return nil
}

// replace makes a container for the oldest one that is not busy.
func (n *node) replace() error {
	old := n.all[busyPods]
	n.all = append(n.all[:busyPods], n.all[busyPods+1:]...)
	return errors.Join(old.remove(), n.add())
}

func (n *node) remove() error {
	var errs []error
	for _, c := range n.all {
		errs = append(errs, c.remove())
	}
	return errors.Join(append(errs, os.Remove(n.parent))...)
}

// remove ends the process and removes what add made, as far as it came.
func (c *container) remove() error {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill() // an error means that it has ended
		_ = c.cmd.Wait()         // fails, because it was killed
	}
	var errs []error
	for _, path := range []string{c.file, c.dir, c.pod} {
		err := os.Remove(path)
		for deadline := time.Now().Add(time.Minute); errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); err = os.Remove(path) {
			time.Sleep(time.Millisecond) // the process has not left its cgroup yet
		}
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// churn replaces a container each second, and scrapes from time to time.
func (n *node) churn(ctx context.Context, long time.Duration, scrape func() error) error {
	every, scrapes := time.NewTicker(time.Second), time.NewTicker(scrapeRate)
	defer every.Stop()
	defer scrapes.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-scrapes.C:
			if err := scrape(); err != nil {
				return err
			}
		case <-every.C:
			if err := n.replace(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startDaemon starts bperf serve with its default budget, and waits until it counts.
func startDaemon(bperf, dir string) (*daemon, error) {
	d := &daemon{server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the daemon counts what it could not send
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))}
	socket, config := filepath.Join(dir, "socket"), filepath.Join(dir, "bperf.yml")
	text := fmt.Sprintf("listen: ['unix:%s']\nevents: [%s]\npush: [{kind: otlp, url: '%s'}]\n", socket, sixEvents, d.server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(bperf, "serve", "--config", config)
	d.cmd.Stderr = &d.log
	d.client = &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	if err := d.cmd.Start(); err != nil {
		d.server.Close()
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := d.get("/-/ready", false)
		if err == nil {
			return d, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("start bperf serve: %w", errors.Join(err, d.stop()))
		}
	}
}

// stop ends the daemon. It returns an error if it did not end in order.
func (d *daemon) stop() error {
	defer d.server.Close()
	return errors.Join(d.cmd.Process.Signal(unix.SIGTERM), d.cmd.Wait())
}

func (d *daemon) get(path string, compressed bool) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if compressed {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// scrape gets the metrics without compression.
func (d *daemon) scrape() error {
	_, err := d.get("/metrics", false)
	return err
}

// measure prints rows of what the daemon takes while containers are replaced, and returns them.
func (d *daemon) measure(ctx context.Context, n *node, long time.Duration) ([]usage, error) {
	fmt.Printf("%8s %8s %8s %8s %10s %10s %10s %10s %6s %8s %10s\n", "time, s", "CPU, %", "user, s", "sys, s", "anon, MiB", "file, MiB",
		"heap, MiB", "goroutines", "level", "BPF, %", "forks/s")
	rows := max(rowsOfRun, int(long/longestRow))
	var all []usage
	for row := range rows + 1 {
		if row > 0 {
			if err := n.churn(ctx, long/time.Duration(rows), d.scrape); err != nil {
				return nil, err
			}
		}
		now, err := d.usage()
		if err != nil {
			return nil, err
		}
		if all = append(all, now); row > 0 {
			d.printRow(fmt.Sprintf("%.0f", now.at.Sub(all[0].at).Seconds()), all[row-1], now)
		}
	}
	d.printRow("all", all[0], all[rows])
	return all, nil
}

func (d *daemon) printRow(name string, before, after usage) {
	took := after.at.Sub(before.at).Seconds()
	user, system := after.user-before.user, after.system-before.system
	fmt.Printf("%8s %8.2f %8.2f %8.2f %10.1f %10.1f %10.1f %10.0f %6.0f %8.2f %10.1f\n", name, 100*after.share(before),
		user.Seconds(), system.Seconds(), after.anon, after.file, after.heap, after.goroutines, after.level, 100*after.programs, (after.forks-before.forks)/took)
}

// share returns the share of the time of all CPUs that the daemon has taken since before.
func (u *usage) share(before usage) float64 {
	return (u.user + u.system - before.user - before.system).Seconds() / u.at.Sub(before.at).Seconds() / float64(runtime.NumCPU())
}

// usage is what the daemon has taken up to a moment. Memory is in MiB.
type usage struct {
	at                time.Time
	user, system      time.Duration
	anon, file        float64
	heap              float64 // of Go, in use
	goroutines, level float64
	programs          float64 // share of all CPUs that its BPF programs took in the last period of its budget
	forks             float64 // processes and threads that the machine has started since it booted
}

func (d *daemon) usage() (u usage, err error) {
	u.at = time.Now()
	pid := d.cmd.Process.Pid
	if u.user, u.system, err = processTimes(pid); err != nil {
		return u, err
	}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return u, err
	}
	rss, err := kilobytes(rollup, "Rss:")
	if err != nil {
		return u, err
	}
	if u.anon, err = kilobytes(rollup, "Anonymous:"); err != nil {
		return u, err
	}
	u.anon, u.file = u.anon/1024, (rss-u.anon)/1024
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	u.forks = value(stat, "processes")
	body, err := d.get("/metrics", false)
	if err != nil {
		return u, err
	}
	for name, to := range map[string]*float64{"go_memstats_heap_inuse_bytes": &u.heap, "go_goroutines": &u.goroutines,
		"bperf_budget_level": &u.level, `bperf_budget_cpu_ratio{part="bpf_programs"}`: &u.programs} {
		*to = value(body, name)
	}
	u.heap /= 1 << 20
	return u, nil
}

// value returns the value of a series in Prometheus' text format, or 0 if it is absent.
func value(metrics []byte, series string) float64 {
	for line := range strings.Lines(string(metrics)) {
		if text, is := strings.CutPrefix(line, series+" "); is {
			v, _ := strconv.ParseFloat(strings.TrimSpace(text), 64) // a number in this format
			return v
		}
	}
	return 0
}

// kilobytes returns a field of /proc/PID/smaps_rollup.
func kilobytes(rollup []byte, field string) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(rollup))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == field {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("smaps_rollup has no %s", field)
}

// processTimes returns the CPU time of a process, from /proc/PID/stat.
func processTimes(pid int) (user, system time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the command of the daemon has no parenthesis
	f := strings.Fields(string(rest))
	if len(f) < 13 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(f))
	}
	const tick = time.Second / 100 // USER_HZ
	for i, to := range []*time.Duration{&user, &system} {
		ticks, err := strconv.ParseInt(f[11+i], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		*to = time.Duration(ticks) * tick
	}
	return user, system, nil
}

// printScrapes prints what several scrapes take.
func (d *daemon) printScrapes(compressed bool) error {
	var took, cpu []float64
	size := 0
	for range scrapes {
		time.Sleep(1500 * time.Millisecond) // the daemon answers with the same counts for a second
		start, before := time.Now(), processClock(d.cmd.Process.Pid)
		body, err := d.get("/metrics", compressed)
		if err != nil {
			return err
		}
		took = append(took, time.Since(start).Seconds()*1e3)
		cpu = append(cpu, (processClock(d.cmd.Process.Pid)-before).Seconds()*1e3)
		size = len(body)
	}
	// The least of the CPU time has the least of what else the daemon did.
	name := "a scrape"
	if compressed {
		name = "compressed"
	}
	fmt.Printf("%s: %.1f ms (median of %d; the least is %.1f), %.1f ms of CPU time (the least), %.2f MiB\n",
		name, median(took), scrapes, slices.Min(took), slices.Min(cpu), float64(size)/(1<<20))
	return nil
}

// processClock returns the CPU time of a process that exists, to the nanosecond: clock_getcpuclockid(3).
func processClock(pid int) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(int32(^pid<<3|2), &t) // it cannot fail for a child that was not waited for
	return time.Duration(t.Nano())
}
