package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/stacks"
)

// Environment variables of the load. waysVariable turns a new process of this program into the load; its value is the number of different
// stacks.
const (
	waysVariable   = "BPERF_BENCH_WAYS"
	resultVariable = "BPERF_BENCH_RESULT" // file to which the load writes its CPU time
	leavesVariable = "BPERF_BENCH_LEAVES" // number of times that each thread calls the function at the end of the stacks
)

// someLeaves take a second or two.
const someLeaves = 400_000

// spend is the load. It has as many threads as there are CPUs.
func spend(ways uint) error {
	leaves, err := strconv.ParseUint(os.Getenv(leavesVariable), 10, 0)
	if err != nil {
		return err
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		return err
	}
	defer zero.Close()
	faults := make([]error, runtime.NumCPU())
	var threads sync.WaitGroup
	for i := range faults {
		threads.Go(func() {
			block := make([]byte, 4096)
			for range uint(leaves) / ways {
				stacks.Walk(ways, func() {
					if _, err := zero.Read(block); err != nil {
						faults[i] = err
					}
					sha256.Sum256(block)
				})
			}
		})
	}
	threads.Wait()
	var u unix.Rusage
	if err := errors.Join(append(faults, unix.Getrusage(unix.RUSAGE_SELF, &u))...); err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(resultVariable), []byte(strconv.FormatInt(u.Utime.Nano()+u.Stime.Nano(), 10)), 0o644)
}

// profiler is a profiler to measure.
type profiler struct {
	name string
	// take runs the command load and profiles it.
	take func(ctx context.Context, hertz int, load []string) (profiled, error)
}

// profiled is the cost of a profile.
type profiled struct {
	cpu    time.Duration // CPU time without the load
	self   time.Duration // only for perf: the same with report --no-children, which like bperf profile does not sum up callees
	load   time.Duration // CPU time of the load
	peak   int64         // KiB
	kernel int64         // bytes that left the kernel; 0 if unknown
}

type sampling struct {
	*bench
	dir    string
	leaves string // value of leavesVariable
}

// profiles compares profiling a load by bperf profile, by perf record and perf report, and by bcc's profile if it runs.
func (b *bench) profiles(long time.Duration, rates []int) error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf", "profile-bpfcc": "bpfcc-tools"}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := sampling{b, dir, strconv.Itoa(someLeaves)}
	if err := s.calibrate(long); err != nil {
		return err
	}
	all := []profiler{{"none", s.none}, {"bperf", s.ours}, {"perf", s.theirs}, {"bcc", s.bcc}}
	fmt.Printf("%-5s %5s %-6s %13s %10s %10s %14s\n", "ways", "Hz", "", "profiler, s", "load, s", "peak MiB", "kernel, bytes")
	for _, load := range []sampledLoad{{8, 0.15, 0}, {5000, 0.25, 0.05}} {
		for _, hertz := range rates {
			if err := s.compare(all, load, hertz); err != nil {
				return err
			}
		}
	}
	return nil
}

// calibrate sets leaves so that each thread of the load takes the CPU time long on an otherwise idle machine.
func (s *sampling) calibrate(long time.Duration) error {
	restore, err := s.setLoad(8)
	if err != nil {
		return err
	}
	defer restore()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := s.none(ctx, 0, []string{self})
	if err != nil {
		return err
	}
	s.leaves = strconv.Itoa(int(someLeaves * float64(long) * float64(runtime.NumCPU()) / float64(p.load)))
	return nil
}

// setLoad sets the environment variables of the load. restore removes them.
func (s *sampling) setLoad(ways int) (restore func(), err error) {
	all := map[string]string{waysVariable: strconv.Itoa(ways), leavesVariable: s.leaves, resultVariable: s.file("load")}
	for name, value := range all {
		err = errors.Join(err, os.Setenv(name, value))
	}
	return func() {
		for name := range all {
			os.Unsetenv(name)
		}
	}, err
}

// sampledLoad is a load with a number of stacks, and the aims for it: ratios to perf record and report --no-children; 0 for none.
type sampledLoad struct {
	ways       int
	cpu, bytes float64
}

// compare runs the profilers in turns and prints the medians. For a profiler that fails it prints the error instead.
func (s *sampling) compare(all []profiler, load sampledLoad, hertz int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	restore, err := s.setLoad(load.ways)
	if err != nil {
		return err
	}
	defer restore()
	results, failed := make([][]profiled, len(all)), make([]error, len(all))
	for range s.runs {
		for i, p := range all {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			r, err := p.take(ctx, hertz, []string{self})
			cancel()
			if err != nil {
				failed[i] = err
				continue
			}
			results[i] = append(results[i], r)
		}
	}
	for i, p := range all {
		if failed[i] != nil {
			fmt.Printf("%-5d %5d %-6s failed: %v\n", load.ways, hertz, p.name, failed[i])
			continue
		}
		r := results[i]
		fmt.Printf("%-5d %5d %-6s %13.3f %10.3f %10.1f %14.0f\n", load.ways, hertz, p.name, medianOf(r, profilerCPU), medianOf(r, loadCPU),
			medianOf(r, peakMemory)/1024, medianOf(r, kernelBytes))
	}
	ours, theirs, bcc := results[1], results[2], results[3]
	if failed[1] != nil || failed[2] != nil {
		return nil
	}
	cpu := medianOf(ours, profilerCPU)
	cpuRatio, bytesRatio := cpu/medianOf(theirs, selfCPU), medianOf(ours, kernelBytes)/medianOf(theirs, kernelBytes)
	fmt.Printf("      bperf has %.2f of perf's CPU time, %.2f of that with report --no-children", cpu/medianOf(theirs, profilerCPU), cpuRatio)
	printAim(cpuRatio, load.cpu)
	fmt.Printf(", and %.4f of its bytes", bytesRatio)
	printAim(bytesRatio, load.bytes)
	if failed[3] == nil {
		fmt.Printf(", %.2f of bcc's memory", medianOf(ours, peakMemory)/medianOf(bcc, peakMemory))
	}
	fmt.Println()
	return nil
}

func profilerCPU(r profiled) float64 { return r.cpu.Seconds() }
func selfCPU(r profiled) float64     { return r.self.Seconds() }
func loadCPU(r profiled) float64     { return r.load.Seconds() }
func peakMemory(r profiled) float64  { return float64(r.peak) }
func kernelBytes(r profiled) float64 { return float64(r.kernel) }

func medianOf(all []profiled, of func(profiled) float64) float64 {
	var values []float64
	for _, r := range all {
		values = append(values, of(r))
	}
	return median(values)
}

func (s *sampling) file(name string) string { return filepath.Join(s.dir, name) }

// loaded returns the CPU time that the load has written.
func (s *sampling) loaded() (time.Duration, error) {
	text, err := os.ReadFile(s.file("load"))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return time.Duration(n), errors.Join(err, os.Remove(s.file("load")))
}

func (s *sampling) none(ctx context.Context, _ int, load []string) (p profiled, err error) {
	if err := exec.CommandContext(ctx, load[0]).Run(); err != nil {
		return p, err
	}
	p.load, err = s.loaded()
	return p, err
}

// ours profiles with bperf, which with -v prints the number of bytes that it has read from the kernel.
func (s *sampling) ours(_ context.Context, hertz int, load []string) (p profiled, err error) {
	args := []string{s.bperf, "profile", "-v", "-e", "cpu-clock", "-F", strconv.Itoa(hertz), "--format", "tree", "-o", s.file("report"), "--"}
	c, err := measure(append(args, load...))
	if err != nil {
		return p, err
	}
	if p.load, err = s.loaded(); err != nil {
		return p, err
	}
	p.cpu, p.peak = c.cpu-p.load, c.peak
	m := bytesRead.FindSubmatch(c.stderr)
	if m == nil {
		return p, fmt.Errorf("bperf did not report how much it read:\n%s", c.stderr)
	}
	p.kernel, err = strconv.ParseInt(string(m[1]), 10, 64)
	return p, err
}

var bytesRead = regexp.MustCompile(`(?m)^(\d+) bytes were read from the kernel$`)

func (s *sampling) theirs(_ context.Context, hertz int, load []string) (p profiled, err error) {
	data := s.file("perf.data")
	args := []string{s.perf, "record", "-q", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(hertz), "-o", data, "--"}
	recorded, err := measure(append(args, load...))
	if err != nil {
		return p, err
	}
	if p.load, err = s.loaded(); err != nil {
		return p, err
	}
	reported, err := measure([]string{s.perf, "report", "--stdio", "-i", data})
	if err != nil {
		return p, err
	}
	short, err := measure([]string{s.perf, "report", "--stdio", "--no-children", "-i", data})
	if err != nil {
		return p, err
	}
	info, err := os.Stat(data)
	if err != nil {
		return p, err
	}
	recording := recorded.cpu - p.load
	p.cpu, p.self = recording+reported.cpu, recording+short.cpu
	p.peak, p.kernel = max(recorded.peak, reported.peak), info.Size()
	return p, os.Remove(data)
}

// bcc profiles with bcc's profile, which cannot run a command: bcc starts the load and stops the profile when the load ends. The profile
// needs the headers of a kernel, for which BCC_KERNEL_SOURCE may be set (docs/bench.md).
func (s *sampling) bcc(ctx context.Context, hertz int, load []string) (p profiled, err error) {
	worker := exec.CommandContext(ctx, load[0])
	cmd := exec.CommandContext(ctx, "profile-bpfcc", "-F", strconv.Itoa(hertz), "--stack-storage-size", "65536")
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	if err := cmd.Start(); err != nil {
		return p, err
	}
	lines := bufio.NewScanner(out)
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := waitForEvents(starting, cmd.Process.Pid); err != nil {
		return p, fmt.Errorf("%w: %s", errors.Join(err, cmd.Process.Kill(), cmd.Wait()), strings.TrimSpace(stderr.String()))
	}
	workErr := worker.Run()
	signalErr := cmd.Process.Signal(unix.SIGINT)
	var c cost
	for lines.Scan() { // its memory is at the peak while it prints the samples
		_ = c.readMemory(cmd.Process.Pid) // fails when it has ended
	}
	if err := errors.Join(cmd.Wait(), workErr, signalErr); err != nil {
		return p, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if p.load, err = s.loaded(); err != nil {
		return p, err
	}
	p.cpu, p.peak = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), c.peak
	return p, nil
}

// waitForEvents waits until a process has perf events on all CPUs.
func waitForEvents(ctx context.Context, pid int) error {
	for ctx.Err() == nil {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return errors.New("it has ended")
		}
		n := 0
		for _, f := range files {
			if is, err := os.Readlink(f); err == nil && is == "anon_inode:[perf_event]" {
				n++
			}
		}
		if n >= runtime.NumCPU() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// lost profiles the system while a load of 5,000 stacks runs in a loop. It compares the samples with the count of the events, and returns an
// error if samples or stacks are missing.
func (b *bench) lost(long time.Duration) error {
	const hertz = 4999
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	events, err := event.Host().Parse("cpu-clock")
	if err != nil {
		return err
	}
	by, err := sample.ParseKeys([]string{"stack"})
	if err != nil {
		return err
	}
	s := sampling{b, dir, strconv.Itoa(someLeaves)}
	restore, err := s.setLoad(5000)
	if err != nil {
		return err
	}
	defer restore()
	var stacks uint64
	note := func(string) {}
	r, err := sample.Run(sample.Config{By: by, Keep: profile.PID | profile.Address, Record: record.Config{Events: events, Frequency: hertz, Overrides: true, Inherit: true,
		Spec: session.Spec{Target: target.Spec{System: true}, Command: []string{"timeout", fmt.Sprint(int(long.Seconds())), "sh", "-c", "while :; do " + self + "; done"},
			Timeout: long + time.Minute, Notify: note},
		Verbose: note, Version: "bench"},
		Progress: func(p sample.Progress) { stacks = max(stacks, p.Stacks) }})
	if err != nil {
		return err
	}
	t := r.Totals
	inProfile := uint64(0)
	different := make(map[profile.StackID]bool)
	for _, one := range r.Profile.Samples() {
		inProfile += one.Count
		different[one.Stack] = true
	}
	period := t.Value / max(1, t.Samples)
	fmt.Printf("%v, %d Hz: the events have counted %d samples; %d were taken, %d more are reported as missed; %d are in the profile, %d lost, %d without a stack; "+
		"%d different stacks, at most %d in the kernel\n", long, hertz, t.Counted/period, t.Samples, t.Missed, inProfile, t.NoRoom, t.NoStack+t.Collisions,
		len(different), stacks)
	if inProfile+t.NoRoom != t.Samples || t.NoRoom+t.NoStack+t.Collisions > 0 {
		return errors.New("there are samples or stacks missing")
	}
	return nil
}
