package sample

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/split"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config returns a configuration that samples every occurrence of some events, by stack.
func config(t *testing.T, events string, command ...string) Config {
	t.Helper()
	require.Root(t)
	list, err := event.Host().Parse(events)
	check(t, err)
	by, err := ParseKeys([]string{"comm", "stack"})
	check(t, err)
	note := func(s string) { t.Log(s) }
	return Config{By: by, Keep: profile.Comm | profile.PID,
		Record: record.Config{Spec: session.Spec{Command: command, Timeout: 10 * time.Minute, Notify: note}, // emulated machines are slow
			Events: list, Period: 1, Overrides: true, Inherit: true, Verbose: note, Version: "test", CommandLine: []string{"bperf", "profile"}}}
}

func take(t *testing.T, cfg Config) Result {
	t.Helper()
	r, err := Run(cfg)
	check(t, err)
	t.Log(r.Totals)
	if got := total(r.Profile); got+r.Totals.NoRoom+r.Totals.Idle+r.Totals.Filtered != r.Totals.Samples {
		t.Errorf("the profile has %d samples, not those of %+v", got, r.Totals)
	}
	return r
}

// total returns the number of samples.
func total(p *profile.Profile) (n uint64) {
	for _, s := range p.Samples() {
		n += s.Count
	}
	return n
}

// byFunction returns the values of samples by the name of the function.
func byFunction(p *profile.Profile) map[string]uint64 {
	sums := make(map[string]uint64)
	for _, s := range p.Samples() {
		f := p.Functions.At(p.Frames()[s.Leaf].Function)
		sums[p.Strings.At(f.Name)] += s.Value
	}
	return sums
}

// load returns the command line of this test binary as a program to profile, which uses the given CPU time.
func load(t *testing.T, which string, spent time.Duration) []string {
	t.Helper()
	t.Setenv(loadVariable, which)
	t.Setenv(timeVariable, spent.String())
	self, err := os.Executable()
	check(t, err)
	return []string{self}
}

// truth returns the CPU time of a load whose shares are compared. It is shorter on emulated machines.
func truth() time.Duration {
	if require.IsGuest() {
		return time.Second
	}
	return 2 * time.Second
}

// rate returns the sampling frequency in Hz. It is lower on emulated machines, which would do nothing else.
func rate() uint64 {
	if require.IsGuest() {
		return 999
	}
	return 4999
}

// TestCPUComesBack takes a CPU offline and brings it back, and samples each page fault of a program that then runs on it.
func TestCPUComesBack(t *testing.T) {
	const faults = program.MaxPages
	turn := require.SwitchCPU(t, 1)
	path := program.Program{Body: program.Touch, Times: faults}.Write(t)
	cfg := config(t, "page-faults,syscalls:sys_enter_exit")
	cfg.Record.Target.System = true
	signals, ended := make(chan os.Signal, 1), make(chan bool)
	cfg.Record.Signals = signals
	began, joined := make(chan bool), make(chan string, 1)
	cfg.Record.Verbose = func(s string) {
		if s == "events are enabled" {
			close(began)
		}
	}
	cfg.Record.Notify = func(s string) {
		if strings.HasPrefix(s, "CPU 1 has come online") {
			joined <- s
		}
	}
	go func() {
		defer close(ended)
		<-began
		turn("0")
		turn("1")
		select {
		case s := <-joined:
			if s != "CPU 1 has come online and is recorded from now on" {
				t.Error(s)
			}
		case <-time.After(10 * time.Minute):
			t.Error("CPU 1 has not joined")
		}
		if err := perfevent.OnCPU(1, exec.Command(path).Run); err != nil {
			t.Error(err)
		}
		signals <- os.Interrupt
	}()
	r := take(t, cfg)
	<-ended
	by := make(map[string]uint64)
	for _, s := range r.Profile.Samples() {
		if r.Profile.Strings.At(r.Profile.Labels()[s.Labels].Comm) == "program" {
			by[r.Profile.Events[s.Event].Name] += s.Count
		}
	}
	if by["page-faults"] < faults || by["syscalls:sys_enter_exit"] != 1 {
		t.Errorf("samples of the program: %v, want %d page faults at least and one exit", by, faults)
	}
}

// TestTruth profiles programs that measure for themselves how much of their time they spend in each of two functions.
func TestTruth(t *testing.T) {
	require.Root(t)
	loads, err := split.Loads(t.TempDir(), truth())
	check(t, err)
	for _, l := range loads {
		t.Run(l.Name, func(t *testing.T) {
			cfg := config(t, "cpu-clock", l.Command()...)
			cfg.Record.Period, cfg.Record.Frequency = 0, rate()
			r := take(t, cfg)
			p := r.Profile
			var samples, one, three uint64
			for _, s := range p.Samples() {
				name := p.Strings.At(p.Functions.At(p.Frames()[s.Leaf].Function).Name)
				switch {
				case strings.HasSuffix(name, l.One):
					one += s.Value
				case strings.HasSuffix(name, l.Three):
					three += s.Value
				default:
					continue
				}
				samples += s.Count
			}
			got := float64(three) / float64(one+three)
			want, err := l.Share()
			check(t, err)
			if tolerance := uncertainty(want, samples, &r.Totals); !(math.Abs(got-want) <= tolerance) {
				t.Errorf("%.2f %% of the samples are in %s, and %.2f ± %.2f %% of the time: %v", 100*got, l.Three, 100*want, 100*tolerance, byFunction(r.Profile))
			}
			switch l.Name {
			case "Go":
				checkGoStacks(t, r.Profile, l.One)
			case "BPF": // it is unloaded before the profile is made
				named := func(p profile.Program) bool { return r.Profile.Strings.At(p.Name) == "split" }
				if !slices.ContainsFunc(r.Profile.Programs.All(), named) {
					t.Errorf("programs: %+v", r.Profile.Programs.All())
				}
			}
		})
	}
}

// uncertainty returns how much the share of a function in samples may differ from its share of the time. It allows for five standard deviations of the
// number of samples, the time between the functions, and missed samples. On emulated machines, few of the samples are taken, but their shares are right.
func uncertainty(share float64, samples uint64, t *Totals) float64 {
	return min(0.15, 5*math.Sqrt(share*(1-share)/float64(samples))+0.005+float64(t.Missed)/float64(t.Samples+t.Missed))
}

// checkGoStacks looks for a stack from a function down to main. The caller of a function without its own frame is missing.
func checkGoStacks(t *testing.T, p *profile.Profile, leaf string) {
	t.Helper()
	const testMain = "github.com/bperf/bperf/internal/sample.TestMain"
	for _, s := range p.Samples() {
		names := namesOf(p, &s)
		if names[0] == leaf && slices.Contains(names, testMain) && slices.Contains(names, "runtime.main") {
			return
		}
	}
	t.Errorf("no stack goes from %s over TestMain to runtime.main", leaf)
}

// TestFaults samples each fault of programs with a known number of faults.
func TestFaults(t *testing.T) {
	const pages, tasks = 200, 20
	touch := program.Program{Body: program.Touch, Times: pages, Tasks: tasks}
	for _, by := range []string{"stack", "ip,comm", "tid,cpu,cgroup,priority,state"} {
		t.Run(by, func(t *testing.T) {
			cfg := config(t, "page-faults:u", touch.Write(t))
			var err error
			cfg.By, err = ParseKeys(strings.Split(by, ","))
			check(t, err)
			r := take(t, cfg)
			if r.Totals.Samples+r.Totals.NotRun != r.Totals.Counted || r.Totals.NoRoom != 0 || r.Totals.NoStack != 0 {
				t.Errorf("the event has counted %d: %+v", r.Totals.Counted, r.Totals)
			}
			if n := r.Totals.Counted; n < pages*(tasks+1) || n > pages*(tasks+1)+20*(tasks+2) {
				t.Errorf("the event has counted %d of %d faults", n, pages*(tasks+1))
			}
		})
	}
}

// TestFilter uses a filter that keeps all samples of one event, and none of another one.
func TestFilter(t *testing.T) {
	const pages = 200
	cfg := config(t, "page-faults:u,minor-faults:u", program.Program{Body: program.Touch, Times: pages}.Write(t))
	for i, e := range cfg.Record.Events.Events() {
		e.Filter = []string{"period == 1 && !(cpu >= 4096)", "ip < 16, period == 1"}[i]
	}
	r := take(t, cfg)
	all, none := r.Profile.Events[0], r.Profile.Events[1]
	n := &r.Totals // a program that runs for one of the two may not run for the other
	if n.Samples+n.NotRun != n.Counted || all.Samples+n.NotRun < pages || none.Samples != 0 || n.Filtered+n.NotRun < all.Samples ||
		n.Filtered > all.Samples+n.NotRun {
		t.Errorf("%+v and %+v of %+v", all, none, r.Totals)
	}
}

// TestRange keeps only the samples of one function: a kernel function, for which the BPF program checks the range, and a user function.
func TestRange(t *testing.T) {
	cfg := config(t, "cpu-clock", load(t, "go", 500*time.Millisecond)...)
	cfg.Record.Period, cfg.Record.Frequency = 0, rate()
	r, found, err := ParseRange("0x1000-0x7fffffffffff", "/proc/kallsyms")
	if err != nil || !found {
		t.Fatal(err)
	}
	const want = "github.com/bperf/bperf/internal/sample.onePart"
	cfg.Ranges, cfg.Functions = []Range{r}, []string{want}
	got := take(t, cfg)
	sums := byFunction(got.Profile)
	if len(sums) != 1 || sums[want] == 0 || got.Totals.Filtered == 0 {
		t.Errorf("functions %v, %+v", sums, got.Totals)
	}
}

// onThread profiles a thread while it runs a function, which starts when sampling has started.
func onThread(t *testing.T, cfg Config, do func()) Result {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals, enabled := make(chan os.Signal, 1), make(chan struct{})
	cfg.Record.Signals, cfg.Record.Delay, cfg.Record.Target.TIDs = signals, time.Millisecond, []int{syscall.Gettid()}
	cfg.Record.Notify = func(s string) {
		if s == "Events enabled" {
			close(enabled)
		}
	}
	var r Result
	ran := make(chan error, 1)
	go func() {
		var err error
		r, err = Run(cfg)
		ran <- err
	}()
	select {
	case <-enabled:
	case err := <-ran:
		t.Fatal(err)
	}
	do()
	signals <- syscall.SIGINT
	check(t, <-ran)
	t.Log(r.Totals)
	return r
}

// spin runs a BPF program, and something else, for some CPU time.
func spin(t *testing.T, p *ebpf.Program, spent time.Duration) {
	t.Helper()
	for end := threadCPU(t) + spent; threadCPU(t) < end; {
		if err := bpfprogram.Run(p, 1000); err != nil && err != syscall.EINTR {
			t.Fatal(err)
		}
		threeParts(3_000_000)
	}
}

// threadCPU returns the CPU time of this thread.
func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	const thread = 1 // RUSAGE_THREAD from include/uapi/linux/resource.h
	var u syscall.Rusage
	check(t, syscall.Getrusage(thread, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestPrograms keeps the samples of a BPF program.
func TestPrograms(t *testing.T) {
	require.Root(t)
	p, err := bpfprogram.Load()
	check(t, err)
	defer p.Close()
	info, err := p.Info()
	check(t, err)
	id, _ := info.ID()
	selector, err := bpfprog.Parse(strconv.Itoa(int(id)))
	check(t, err)
	cfg := config(t, "cpu-clock")
	if cfg.Programs, err = ProgramRanges(selector); err != nil {
		t.Fatal(err)
	}
	cfg.Record.Period, cfg.Record.Frequency = 0, 999
	r := onThread(t, cfg, func() { spin(t, p, 500*time.Millisecond) })
	for _, s := range r.Profile.Samples() {
		inside := false
		for id := range r.Profile.Stacks.Frames(s.Stack) {
			inside = inside || r.Profile.Frames()[id].Kind == profile.BPF
		}
		if !inside {
			t.Errorf("a sample with nothing of a BPF program on its stack: %+v", s)
		}
	}
	if total(r.Profile) == 0 || r.Totals.Filtered == 0 {
		t.Errorf("%+v", r.Totals)
	}
}

// watchPrograms makes the kernel write records of BPF programs, as another profiler would do.
func watchPrograms(t *testing.T) {
	t.Helper()
	for cpu := range runtime.NumCPU() {
		attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SampleType: perfevent.TrailerFormat,
			Flags: perfdata.AttrKSymbol | perfdata.AttrBPFEvent | perfdata.AttrSampleIDAll}
		e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
		check(t, err)
		t.Cleanup(func() { e.Close() })
		ring, err := e.Map(0)
		check(t, err)
		t.Cleanup(func() { ring.Close() })
	}
}

// TestProgramsOfOthers runs a program that a thread other than the profiled one loads and unloads during the profile. Its functions have names, even if
// other events have records of programs too.
func TestProgramsOfOthers(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, "cpu-clock:k")
	cfg.Record.Period, cfg.Record.Frequency = 0, 999
	r := onThread(t, cfg, func() {
		watchPrograms(t)
		var p *ebpf.Program
		var err error
		loaded := make(chan struct{})
		go func() { // on another thread, as this goroutine is locked to its own
			defer close(loaded)
			p, err = bpfprogram.Load()
		}()
		<-loaded
		check(t, err)
		spin(t, p, 500*time.Millisecond)
		unloaded := make(chan struct{})
		go func() {
			defer close(unloaded)
			err = p.Close()
		}()
		<-unloaded
		check(t, err)
	})
	named, all := uint64(0), uint64(0)
	for _, s := range r.Profile.Samples() {
		all += s.Count
		if slices.ContainsFunc(namesOf(r.Profile, &s), func(name string) bool { return strings.HasSuffix(name, "_"+bpfprogram.Spin) }) {
			named += s.Count
		}
	}
	if named == 0 {
		t.Errorf("no sample of %d is in a function of the program: %v", all, byFunction(r.Profile))
	}
}

// TestIntervals takes a profile of each interval. Together they have all samples.
func TestIntervals(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, "cpu-clock", load(t, "go", 500*time.Millisecond)...)
	cfg.Record.Period, cfg.Record.Frequency, cfg.Every = 0, 999, 200*time.Millisecond
	var sums []uint64
	all := uint64(0)
	cfg.Each = func(p *profile.Profile) error {
		sums = append(sums, total(p))
		all += total(p)
		if p.Info.Duration <= 0 || p.Info.Start.IsZero() {
			t.Errorf("interval %d: %+v", len(sums), p.Info)
		}
		return nil
	}
	r, err := Run(cfg)
	check(t, err)
	with := 0
	for _, n := range sums {
		if n > 0 {
			with++
		}
	}
	if all != r.Totals.Samples || with < 2 { // an interval that is late is longer
		t.Errorf("intervals %v, all together %d, not those of %+v", sums, all, r.Totals)
	}
}

// TestTracepoint samples a tracepoint, whose samples are not added up in the kernel, together with an event whose samples are.
func TestTracepoint(t *testing.T) {
	require.Tracefs(t)
	const calls = 300
	cfg := config(t, "syscalls:sys_enter_getsid,page-faults:u", program.Program{Body: program.GetSID, Times: calls}.Write(t))
	r := take(t, cfg)
	if e := r.Profile.Events; e[0].Samples != calls || e[1].Samples == 0 {
		t.Errorf("events %+v", e)
	}
	cfg.Ranges = []Range{{1, 2}}
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "samples of tracepoints") {
		t.Error(err)
	}
}

// TestFullMaps takes more sums than the maps have room for.
func TestFullMaps(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, "page-faults:u", program.Program{Body: program.Touch, Times: 1, Tasks: 200}.Write(t))
	cfg.Entries = 16
	r := take(t, cfg)
	if r.Totals.Samples+r.Totals.NotRun != r.Totals.Counted {
		t.Errorf("the event has counted %d: %+v", r.Totals.Counted, r.Totals)
	}
	if (r.Totals.NoRoom > 0) != strings.Contains(r.Totals.String(), "--map-entries") {
		t.Errorf("said: %s", r.Totals)
	}
}

// TestCounter fills maps and swaps them. Nothing else reads them while it runs.
func TestCounter(t *testing.T) {
	require.Root(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := newCounter(settings{Keys: Keys{IP: true, TID: true}, kernel: true, user: true, events: 1, entries: 4, filters: make([]asm.Instructions, 1)})
	check(t, err)
	defer c.Close()
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, SamplePeriod: 1, Flags: perfdata.AttrDisabled,
		ReadFormat: perfevent.ReadFormatTimes}
	fd, err := perfevent.Open(&attr, perfevent.Where{Thread: syscall.Gettid(), CPU: perfevent.AnyCPU})
	check(t, err)
	defer fd.Close()
	check(t, fd.SetBPF(c.program(0)))
	counts := make(map[uint32]uint64)
	all := uint64(0)
	const last = 3
	for round := range last + 1 {
		check(t, fd.Enable())
		touched := touch(t, 10*(round+1))
		check(t, fd.Disable())
		before := all
		count := func(e *entry) error {
			counts[e.Subject.Tid] += e.Count
			all += e.Count
			return nil
		}
		if round < last {
			check(t, c.swap(round%2 == 1, count))
		} else {
			check(t, c.finish(count))
		}
		if all-before < uint64(touched) {
			t.Errorf("round %d: %d samples of %d faults", round, all-before, touched)
		}
	}
	own, err := fd.Read()
	check(t, err)
	sums, err := c.counts()
	check(t, err)
	if own.Value != all+sums[0].NoSum || sums[0].Samples != own.Value || sums[0].Value != own.Value {
		t.Errorf("the event has counted %d, sums have %d, and of all: %+v", own.Value, all, sums[0])
	}
	if len(counts) != 1 || counts[uint32(syscall.Gettid())] != all {
		t.Errorf("by thread %v, not all %d of %d", counts, all, syscall.Gettid())
	}
}

// touch has memory of its own, and writes to each of its pages for the first time.
func touch(t *testing.T, pages int) int {
	t.Helper()
	size := os.Getpagesize()
	m, err := syscall.Mmap(-1, 0, pages*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	for i := range pages {
		m[i*size] = 1
	}
	check(t, syscall.Munmap(m))
	return pages
}

// TestModes restricts samples to the user or the kernel, with modifiers and for all events. Without a restriction both are sampled.
func TestModes(t *testing.T) {
	require.AnyArch(t)
	for name, tt := range map[string]struct {
		events       string
		user, kernel bool // that is asked for alone
	}{
		"neither": {"cpu-clock", false, false}, ":u": {"cpu-clock:u", true, false}, ":k": {"cpu-clock:k", false, true},
		"--user": {"cpu-clock", true, false}, "--kernel": {"cpu-clock", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, tt.events, "dd", "if=/dev/zero", "of=/dev/null", "bs=1", fmt.Sprint("count=", 50*rate()), "status=none")
			cfg.Record.Period, cfg.Record.Frequency = 0, rate()
			if tt.events == "cpu-clock" {
				cfg.Record.AllUser, cfg.Record.AllKernel = tt.user, tt.kernel
			}
			r := take(t, cfg)
			kinds := make(map[profile.Kind]uint64)
			for _, s := range r.Profile.Samples() {
				kinds[r.Profile.Frames()[s.Leaf].Kind] += s.Count // its callers may be of users
			}
			if (kinds[profile.User] > 0) == tt.kernel || (kinds[profile.Kernel] > 0) == tt.user {
				t.Errorf("samples by the kind of code: %v", kinds)
			}
		})
	}
}

// TestSideBySide takes two profiles of the same program at once.
func TestSideBySide(t *testing.T) {
	require.AnyArch(t)
	const pages, name = 200, "side-by-side"
	touch := program.Program{Body: program.Touch, Times: pages}.WriteAs(t, name)
	first := config(t, "page-faults:u", touch)
	first.Record.Period = 7
	var second Result
	// A second profile, of the whole system, begins before the first and ends after it.
	system := config(t, "page-faults:u")
	system.Record.Target.System, system.Record.Timeout = true, 0
	signals := make(chan os.Signal, 1)
	system.Record.Signals = signals
	begun := make(chan struct{})
	system.Record.Delay = time.Millisecond
	system.Record.Notify = func(s string) {
		if s == "Events enabled" {
			close(begun)
		}
	}
	done := make(chan error, 1)
	go func() {
		var err error
		second, err = Run(system)
		done <- err
	}()
	<-begun
	r := take(t, first)
	signals <- syscall.SIGINT
	check(t, <-done)
	want := r.Totals.Counted
	if want < pages {
		t.Errorf("%d faults", want)
	}
	// Each CPU on which the program runs has its own period.
	if got := r.Totals.Samples; got > want/7 || got+r.Totals.Missed+uint64(runtime.NumCPU()) < want/7 {
		t.Errorf("%d samples of each 7th fault, want %d: %+v", got, want/7, r.Totals)
	}
	got := uint64(0)
	for _, s := range second.Profile.Samples() {
		if l := second.Profile.Labels()[s.Labels]; second.Profile.Strings.At(l.Comm) == name {
			got += s.Count
		}
	}
	if lost := second.Totals.NotRun; got > want || got+lost < want {
		t.Errorf("the other profile has %d samples, of %d faults: %+v", got, want, second.Totals)
	}
}

// TestInstructions samples a program with a known number of instructions: one sample per period.
func TestInstructions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const period = 100_000
	spin := program.Program{Body: program.Spin, Times: 10_000_000}
	cfg := config(t, "instructions:u,cycles:u", spin.Write(t))
	cfg.Record.Period = period
	r := take(t, cfg)
	want := spin.Instructions() / period
	for _, e := range r.Profile.Events[:2] {
		if e.Samples < want-1 || e.Samples > want || e.Value != e.Samples*period {
			t.Errorf("%s: %d samples, %d events, want %d samples", e.Name, e.Samples, e.Value, want)
		}
	}
	if c := r.Totals.Counted; c != 2*spin.Instructions() {
		t.Errorf("the events have counted %d, want twice %d", c, spin.Instructions())
	}
}
