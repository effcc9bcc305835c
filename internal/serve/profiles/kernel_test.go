package profiles

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod is a cgroup that looks like a container.
type pod struct {
	container.Name
	dir string
}

// pods makes cgroups, and the function that finds them.
func pods(t *testing.T, names ...string) (all []pod, find func(uint64) (container.Name, bool)) {
	t.Helper()
	root, err := target.Spec{System: true, Cgroups: []string{"/"}}.Resolve()
	check(t, err)
	byID := map[uint64]container.Name{}
	for i, name := range names {
		dir, err := os.MkdirTemp(root.Cgroups[0].Path, "bperf-profiles-")
		check(t, err)
		t.Cleanup(func() {
			err := os.Remove(dir)
			for deadline := time.Now().Add(time.Minute); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(dir) {
				time.Sleep(time.Millisecond) // its processes have not quite ended
			}
			check(t, err)
		})
		info, err := os.Stat(dir)
		check(t, err)
		id := info.Sys().(*syscall.Stat_t).Ino
		n := container.Name{Cgroup: id, Path: "/" + filepath.Base(dir), ID: strings.Repeat(fmt.Sprintf("%02x", 0xa0+i), 32),
			PodUID: "uid-" + name, Namespace: "tests", Pod: name, Container: "main"}
		byID[id] = n
		all = append(all, pod{n, dir})
	}
	return all, func(id uint64) (container.Name, bool) {
		n, ok := byID[id]
		return n, ok
	}
}

// load is a process of a pod that uses CPU time.
type load struct {
	t     *testing.T
	stdin io.Writer
	lines *bufio.Scanner
}

// newLoad returns a process in the pod. It uses this CPU time after each start.
func (p *pod) newLoad(t *testing.T, spend time.Duration) *load {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	dir, err := os.Open(p.dir)
	check(t, err)
	defer dir.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), loadVariable+"="+spend.String(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &load{t, stdin, bufio.NewScanner(stdout)}
}

func (l *load) start() {
	l.t.Helper()
	_, err := io.WriteString(l.stdin, "x")
	check(l.t, err)
}

// turn lets the load use its CPU time once, and returns how much it has used so far, as far as timers see it.
func (l *load) turn() time.Duration {
	l.t.Helper()
	l.start()
	if !l.lines.Scan() {
		l.t.Fatal("the load has ended: ", l.lines.Err())
	}
	used, err := time.ParseDuration(l.lines.Text())
	check(l.t, err)
	return used
}

// running makes a Profiler and runs it.
func running(t *testing.T, cfg Config) (*Profiler, <-chan *Window, func()) {
	t.Helper()
	require.Root(t)
	p, err := New(cfg)
	check(t, err)
	windows, stop := run(t, p)
	return p, windows, stop
}

// run runs a Profiler until stop or the end of the test, and returns its windows.
func run(t *testing.T, p *Profiler) (_ <-chan *Window, stop func()) {
	t.Helper()
	windows := make(chan *Window, 10_000)
	p.cfg.Each = func(w *Window) { windows <- w }
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return windows, stop
}

// next returns the next window.
func next(t *testing.T, p *Profiler, windows <-chan *Window) *Window {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		select {
		case w := <-windows:
			return w
		case <-time.After(time.Second):
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no window in five minutes")
		}
	}
}

// TestTruth profiles two pods in windows. They have the shares of the CPU time that they have used. Both run on one CPU, because the timers of
// virtual CPUs can be late, and samples are then missing of one CPU but not of another. They take turns, so that time without samples is
// missing of both in proportion. What they have used includes what the host of a virtual machine takes at the end of a turn, as much of both and
// without samples: the share of the samples is between that of the time that was asked for and that of the time that was used. The frequency is
// the highest that the daemon's settings allow: with a higher one, a slow machine loses samples, and not the same part of both pods.
func TestTruth(t *testing.T) {
	require.Root(t)
	all, find := pods(t, "large", "small")
	loads := []*load{all[0].newLoad(t, 30*time.Millisecond), all[1].newLoad(t, 10*time.Millisecond)}
	before := [2]time.Duration{loads[0].turn(), loads[1].turn()}
	p, windows, stop := running(t, Config{Frequency: uint64(time.Second / truthPeriod), Every: time.Second, Container: find})
	next(t, p, windows)
	truth := truth{t: t, pods: all}
	const asked = 10. / (30 + 10)
	var used [2]time.Duration
	var got, share, off float64
	for range 40 { // what a busy machine does to samples by chance becomes small beside their number
		for range 25 {
			for i, l := range loads {
				used[i] = l.turn() - before[i]
			}
		}
		for ended := time.Now(); truth.end.Before(ended); {
			truth.add(next(t, p, windows))
		}
		got = float64(truth.values[1]) / float64(truth.values[0]+truth.values[1])
		share = used[1].Seconds() / (used[0] + used[1]).Seconds()
		off = max(min(asked, share)-got, got-max(asked, share))
		t.Logf("%v used, %d ns sampled, %d samples of the machine lost", used, truth.values, truth.lost)
		if off <= 0.02 {
			break
		}
	}
	stop()
	if truth.filtered != truth.values[1] {
		t.Errorf("the filter selects %d of %d", truth.filtered, truth.values[1])
	}
	if off > 0.02 {
		t.Errorf("the share of the small pod is %.2f %%, want one between %.2f and %.2f %%", 100*got, 100*asked, 100*share)
	}
}

// truth adds up windows.
type truth struct {
	t        *testing.T
	pods     []pod
	end      time.Time // of the last window
	values   [2]uint64 // of the pods, in nanoseconds
	filtered uint64    // of the small pod, by a filter
	lost     uint64    // samples
}

func (s *truth) add(w *Window) {
	s.t.Helper()
	s.end = w.End()
	s.lost += w.Profile.Losses.Samples
	samples := uint64(0)
	for _, part := range w.Parts {
		samples += part.Profile.Events[0].Samples
		for i := range s.pods {
			if part.Name == s.pods[i].Name {
				s.values[i] += part.Profile.Events[0].Value
			}
		}
	}
	if whole := w.Profile.Events[0].Samples; samples != whole {
		s.t.Errorf("the parts have %d samples, the window has %d", samples, whole)
	}
	s.filtered += w.Of(Filter{Pod: "small", Namespace: "tests"}).Events[0].Value
}

// TestRate changes the frequency while a process runs, switches the profile off, and on again. Each window has samples of one frequency
// only. Each sample stands for the time between two of them, so that the values of windows can be added.
func TestRate(t *testing.T) {
	require.AnyArch(t)
	before := state(t)
	p, windows, stop := running(t, Config{Frequency: 1000, Every: time.Second})
	all, _ := pods(t, "busy")
	all[0].newLoad(t, time.Hour).start() // ends with the test
	frequency := func(w *Window) uint64 {
		t.Helper()
		e := w.Profile.Events[0]
		if e.Samples == 0 {
			t.Fatal("a window has no samples")
		}
		period := e.Value / e.Samples
		if e.Value != e.Samples*period {
			t.Errorf("%d ns of %d samples: periods are mixed", e.Value, e.Samples)
		}
		return uint64(time.Second) / period
	}
	if f := frequency(next(t, p, windows)); f != 1000 {
		t.Errorf("%d Hz at the start", f)
	}
	changes := []uint64{500, 250, 1000}
	if require.IsGuest() && !require.Long() { // where each takes several seconds
		changes = changes[:1]
	}
	for _, want := range changes {
		p.SetRate(Rate{true, want})
		f := uint64(0)
		for range cap(windows) { // those of the frequency before
			if f = frequency(next(t, p, windows)); f == want {
				break
			}
		}
		if f != want || !p.Settled() {
			t.Errorf("%d Hz, want %d; settled: %t", f, want, p.Settled())
		}
	}
	p.SetRate(Rate{})
	for !p.Settled() || p.Err() != errOff {
		time.Sleep(time.Millisecond)
	}
	if got := state(t); got != before {
		t.Errorf("switched off, there are %+v, before the start %+v", got, before)
	}
	for len(windows) > 0 {
		<-windows
	}
	p.SetRate(Rate{true, 250})
	for p.Err() != nil {
		time.Sleep(time.Millisecond)
	}
	if f := frequency(next(t, p, windows)); f != 250 {
		t.Errorf("%d Hz after the profile was off", f)
	}
	p.SetRate(Rate{})
	stop()
}

// TestBuildIDs checks that frames have the build ID of the file that a running process has mapped: servers look up symbols by it.
func TestBuildIDs(t *testing.T) {
	require.AnyArch(t)
	self, err := os.Executable()
	check(t, err)
	want, err := object.Search{}.BuildID(self)
	check(t, err)
	if len(want) == 0 {
		t.Fatalf("%s has no build ID", self)
	}
	p, windows, stop := running(t, Config{Every: time.Second})
	all, _ := pods(t, "busy")
	all[0].newLoad(t, time.Hour).start() // ends with the test
	for {
		w := next(t, p, windows)
		for _, f := range w.Profile.Frames() {
			module := w.Profile.Modules.At(f.Module)
			if w.Profile.Strings.At(module.Path) != self {
				continue
			}
			if got := w.Profile.Strings.At(module.BuildID); got != hex.EncodeToString(want) {
				t.Errorf("%s has the build ID %q, want %x", self, got, want)
			}
			stop()
			return
		}
	}
}

// TestNothingIsLeft compares the descriptors of BPF programs, maps and perf events of this process before and after a session.
func TestNothingIsLeft(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	before := state(t)
	p, windows, stop := running(t, Config{Events: DefaultEvent, Every: time.Second, OffCPU: true})
	w := next(t, p, windows)
	if got := state(t); got.programs == before.programs || len(w.Profile.Events) != 2 {
		t.Errorf("while it runs: %+v, %+v", got, w.Profile.Events)
	}
	stop()
	if got := state(t); got != before {
		t.Errorf("left: %+v, before %+v", got, before)
	}
}

// left is what a session could leave.
type left struct {
	programs, all int
}

// state counts the descriptors of BPF programs, and those of all BPF objects and perf events.
func state(t *testing.T) (s left) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, f := range files {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err != nil {
			continue // the directory itself
		}
		if strings.Contains(to, "bpf") || strings.Contains(to, "perf_event") {
			s.all++
		}
		if strings.Contains(to, "bpf-prog") {
			s.programs++
		}
	}
	return s
}
