package record

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config returns the configuration of a recording to a file of the test.
func config(t *testing.T, events string) Config {
	t.Helper()
	require.Root(t)
	list, err := event.Host().Parse(events)
	check(t, err)
	note := func(s string) { t.Log(s) }
	return Config{Spec: session.Spec{Timeout: time.Minute, Notify: note}, Events: list, Period: 1, Inherit: true,
		Output: filepath.Join(t.TempDir(), "perf.data"), Verbose: note, Version: "test", CommandLine: []string{"bperf", "record"}}
}

// recording is the content of a file.
type recording struct {
	features *perfdata.Features
	samples  map[string]int // by event
	comms    map[string]int // samples by the name of the thread
	records  []perfdata.Value
	times    []uint64 // of samples
	stats    perfdata.Stats
	order    binary.ByteOrder
}

// read reads a recording.
func read(t testing.TB, name string) recording {
	t.Helper()
	r, err := perfdata.Open(name)
	check(t, err)
	defer r.Close()
	out := recording{samples: make(map[string]int), comms: make(map[string]int)}
	names := make(map[int32]string)
	for rec, err := range r.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Sample:
			if rec.Event == nil {
				t.Fatalf("a sample at %d is of no event", rec.Offset)
			}
			out.samples[rec.Event.Name]++
			out.comms[names[v.TID]]++
			out.times = append(out.times, v.Time)
			continue
		case *perfdata.Comm:
			names[v.TID] = v.Comm
		}
		out.records = append(out.records, rec.Value)
	}
	out.features, out.stats, out.order = r.Features(), r.Stats(), r.ByteOrder()
	return out
}

// howMany returns the number of records of a type for which f is true.
func howMany[T perfdata.Value](r recording, f func(T) bool) (n int) {
	for _, v := range r.records {
		if v, ok := v.(T); ok && f(v) {
			n++
		}
	}
	return n
}

// run makes a recording and reads it.
func run(t *testing.T, cfg Config) (Result, recording) {
	t.Helper()
	result, err := Run(cfg)
	check(t, err)
	got := read(t, cfg.Output)
	total := 0
	for _, n := range got.samples {
		total += n
	}
	if uint64(total) != result.Samples {
		t.Errorf("the file has %d samples, and record reported %d", total, result.Samples)
	}
	return result, got
}

const getppid = "syscalls:sys_enter_getppid"

// caller returns a program that calls getppid the given number of times.
func caller(t *testing.T, times uint64) string {
	t.Helper()
	require.Tracefs(t)
	return program.Program{Body: program.GetPPID, Times: times}.Write(t)
}

// TestSamplesAreExact finds each nth call of a command, in all kinds of files.
func TestSamplesAreExact(t *testing.T) {
	const times = 3000
	path := caller(t, times)
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   int
	}{
		{"each", func(*Config) {}, times},
		{"each seventh", func(c *Config) { c.Period, c.Overrides = 7, true }, times / 7},
		{"compressed", func(c *Config) { c.Compression = 1 }, times},
		{"small rings", func(c *Config) { c.RingPages = 64 }, times},
		{"per thread", func(c *Config) { c.PerThread, c.Inherit = true, false }, times},
		{"with callchains", func(c *Config) { c.Callchain = CallchainFP }, times},
		{"with stacks", func(c *Config) { c.Callchain, c.StackSize, c.Period, c.Overrides = CallchainDWARF, 1024, 100, true }, times / 100},
		{"at another clock", func(c *Config) { c.ClockID = new(int32(unix.CLOCK_MONOTONIC)) }, times},
		{"with all that can be added", func(c *Config) {
			c.Addresses, c.PhysAddrs, c.Weight, c.Raw, c.SampleCPU, c.Namespaces, c.Cgroups, c.TaskCounts, c.Switches = true, true, true, true, true, true,
				true, true, true
			c.Transaction, c.DataPages, c.CodePages, c.Identifier, c.DataMaps = true, true, true, true, true
		}, times},
		{"of the system", func(c *Config) { c.Target.System = true; c.Events[0].Events[0].Filter = "common_pid > 0" }, times},
		{"none", func(c *Config) { c.NoSamples = true }, 0},
		{"filtered away", func(c *Config) { c.Events[0].Events[0].Filter = "common_pid == 0" }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, getppid)
			cfg.Command = []string{path}
			tt.change(&cfg)
			result, got := run(t, cfg)
			n := got.samples[getppid]
			if cfg.Target.System {
				n = got.comms[filepath.Base(path)] // others may call it, too
			}
			least := tt.want
			if cfg.Overrides && !cfg.PerThread { // each CPU counts separately, and the last incomplete period on it makes no sample
				least -= runtime.NumCPU() - 1
			}
			if n < least || n > tt.want || result.Lost != 0 {
				t.Errorf("%d samples and %d lost, want %d (at least %d) and none; %v", n, result.Lost, tt.want, least, got.comms)
			}
			if id, _ := got.features.Get(perfdata.FeatureTracingData); id == nil {
				t.Error("the format of the tracepoint is missing")
			}
		})
	}
}

// TestAttributes checks what options make of the attributes of an event.
func TestAttributes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events string
		change func(*Config)
		fields perfdata.SampleType
		flags  perfdata.AttrFlags
		read   perfdata.ReadFormat
	}{
		{"transactions", "{page-faults,cpu-clock}:S", func(c *Config) { c.Transaction = true }, perfdata.SampleTransaction, 0, 0},
		{"pages of data", "{page-faults,cpu-clock}:S", func(c *Config) { c.DataPages = true }, perfdata.SampleDataPageSize | perfdata.SampleAddr, 0, 0},
		{"pages of code", "{page-faults,cpu-clock}:S", func(c *Config) { c.CodePages = true }, perfdata.SampleCodePageSize, 0, 0},
		{"identifiers", "page-faults", func(c *Config) { c.Identifier = true }, perfdata.SampleIdentifier, 0, 0},
		{"data", "{page-faults,cpu-clock}:S", func(c *Config) { c.DataMaps, c.Target.System = true, true }, 0, perfdata.AttrMmapData, 0},
		{"callers in the kernel", "{page-faults,cpu-clock}:S", func(c *Config) { c.Callchain, c.NoUser = CallchainFP, true }, perfdata.SampleCallchain, perfdata.AttrExcludeCallchainUser, 0},
		{"callers in user mode", "{page-faults,cpu-clock}:S", func(c *Config) { c.Callchain, c.NoKernel = CallchainFP, true }, perfdata.SampleCallchain, perfdata.AttrExcludeCallchainKernel, 0},
		{"registers", "page-faults", func(c *Config) { c.InterruptRegs = 1 }, perfdata.SampleRegsIntr, 0, 0},
		{"registers of user mode", "page-faults", func(c *Config) { c.UserRegs = 1 }, perfdata.SampleRegsUser, 0, 0},
		{"times", "{page-faults,cpu-clock}:S", func(c *Config) { c.RunTimes = true }, perfdata.SampleRead, 0, perfevent.ReadFormatTimes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := func(change func(*Config)) perfdata.Attr {
				cfg := config(t, tt.events)
				cfg.Command = []string{"true"}
				change(&cfg)
				run(t, cfg)
				r, err := perfdata.Open(cfg.Output)
				check(t, err)
				defer r.Close()
				a := r.Events()[0].Attr
				for _, e := range r.Events() {
					a.Flags |= e.Attr.Flags // one event asks for records of memory
				}
				return a
			}
			got, plain := with(tt.change), with(func(*Config) {})
			if got.SampleType&tt.fields != tt.fields || got.Flags&tt.flags != tt.flags || got.ReadFormat&tt.read != tt.read {
				t.Errorf("%+v", got)
			}
			if plain.SampleType&tt.fields == tt.fields && plain.Flags&tt.flags == tt.flags && plain.ReadFormat&tt.read == tt.read {
				t.Errorf("without the option: %+v", plain)
			}
		})
	}
}

// TestKernelCallchains expects no copies of user stacks with callchains of the kernel alone.
func TestKernelCallchains(t *testing.T) {
	cfg := config(t, "page-faults")
	cfg.Callchain, cfg.StackSize, cfg.NoUser = CallchainDWARF, 1024, true
	p, err := newPlan(&cfg)
	check(t, err)
	const user = perfdata.SampleStackUser | perfdata.SampleRegsUser
	if a := p.events[0].attr; a.SampleType&user != 0 || a.SampleType&perfdata.SampleCallchain == 0 || !a.Has(perfdata.AttrExcludeCallchainUser) {
		t.Errorf("%+v", a)
	}
}

// TestPageSizesRefused explains what to leave out on an old kernel.
func TestPageSizesRefused(t *testing.T) {
	cfg := config(t, "page-faults")
	cfg.DataPages = true
	p, err := newPlan(&cfg)
	check(t, err)
	err = (&sources{plan: p}).explain(p.events[0], scope{}, syscall.EINVAL)
	if want := "on an older kernel, leave out --data-page-size and --code-page-size"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOneEvent checks that a recording of the system with one event has no IDs in samples, but all records that the dummy asks for.
func TestOneEvent(t *testing.T) {
	require.Tracefs(t)
	for _, tt := range []struct {
		events   string
		callers  Callchain
		name     string
		silenced bool
	}{
		{getppid, CallchainNone, "one", true},
		{getppid, CallchainFP, "one with callchains", true},
		{getppid + ",dummy", CallchainNone, "two", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, tt.events)
			cfg.Target.System, cfg.Callchain = true, tt.callers
			cfg.Command = []string{program.Program{Body: program.GetPPID, Times: 20}.WriteAs(t, "one-event")} // others run programs, too
			_, got := run(t, cfg)
			r, err := perfdata.Open(cfg.Output)
			check(t, err)
			defer r.Close()
			attr := r.Events()[0].Attr
			if ids := attr.SampleType&(perfdata.SampleIdentifier|perfdata.SampleEventID) != 0; ids == tt.silenced || tt.silenced != (len(r.Events()) == 1) {
				t.Errorf("%d events, IDs in records: %v; %v", len(r.Events()), ids, attr.SampleType)
			}
			tracks := attr.Has(perfdata.AttrMmap2 | perfdata.AttrComm | perfdata.AttrTask)
			if tracks != tt.silenced {
				t.Errorf("the event's attribute says that it is followed by records of tasks and memory: %v", tracks)
			}
			name := filepath.Base(cfg.Command[0])
			exec := howMany(got, func(c *perfdata.Comm) bool {
				return c.Exec && c.Comm == name && c.TID == c.SampleID.TID && c.SampleID.Time != 0
			})
			mapped := howMany(got, func(m *perfdata.Mmap2) bool { return m.Filename == cfg.Command[0] && m.PID == m.SampleID.PID })
			if exec != 1 || mapped != 1 || got.comms[name] < 20 {
				t.Errorf("%d records of its execution, %d of its mapping, %d samples, want 1, 1 and 20", exec, mapped, got.comms[name])
			}
		})
	}
}

// TestFeatures checks the features of a file.
func TestFeatures(t *testing.T) {
	cfg := config(t, "page-faults,"+getppid)
	cfg.ClockID = new(int32(unix.CLOCK_MONOTONIC_RAW))
	cfg.Command = []string{caller(t, 50)}
	_, got := run(t, cfg)
	host, err := os.Hostname()
	check(t, err)
	if name := got.features.Text(perfdata.FeatureHostname); name != host {
		t.Errorf("host %q, is %q", name, host)
	}
	for _, id := range []perfdata.FeatureID{perfdata.FeatureOSRelease, perfdata.FeatureArch, perfdata.FeatureNRCPUs, perfdata.FeatureTotalMem,
		perfdata.FeatureCmdline, perfdata.FeatureEventDesc, perfdata.FeatureCPUTopology, perfdata.FeatureSampleTime, perfdata.FeaturePMUMappings,
		perfdata.FeatureClockID, perfdata.FeatureClockData, perfdata.FeatureTracingData, perfdata.FeatureVersion} {
		if v, err := got.features.Get(id); err != nil || v == nil {
			t.Errorf("feature %v: %v, %v", id, v, err)
		}
	}
	v, err := got.features.Get(perfdata.FeatureSampleTime)
	check(t, err)
	times := v.(perfdata.SampleTimes)
	if times.First != got.times[0] || times.Last != got.times[len(got.times)-1] {
		t.Errorf("samples from %d to %d, are from %d to %d", times.First, times.Last, got.times[0], got.times[len(got.times)-1])
	}
	exec := howMany(got, func(c *perfdata.Comm) bool { return c.Exec && c.Comm == filepath.Base(cfg.Command[0]) })
	mapped := howMany(got, func(m *perfdata.Mmap2) bool { return m.Filename == cfg.Command[0] })
	kernel := howMany(got, func(m *perfdata.Mmap) bool { return strings.HasPrefix(m.Filename, snapshot.KernelName) })
	if exec != 1 || mapped != 1 || kernel != 1 {
		t.Errorf("%d records of its execution, %d of its mapping and %d of the kernel's, want one of each", exec, mapped, kernel)
	}
}

// TestGroup reads a group with each sample of its leader.
func TestGroup(t *testing.T) {
	cfg := config(t, "{"+getppid+",page-faults}:S")
	cfg.Command = []string{caller(t, 100)}
	_, got := run(t, cfg)
	if got.samples[getppid+":S"]+got.samples[getppid] != 100 || len(got.samples) != 1 {
		t.Errorf("samples %v, want 100 of the leader alone", got.samples)
	}
	v, err := got.features.Get(perfdata.FeatureGroupDesc)
	check(t, err)
	if groups, _ := v.(perfdata.GroupDescriptions); len(groups) != 1 || groups[0].Members != 2 {
		t.Errorf("groups %+v", v)
	}
}

// TestProcess records a process that runs already, with its threads, to its end.
func TestProcess(t *testing.T) {
	require.Tracefs(t)
	cfg := config(t, getppid)
	const times, tasks = 200, 3
	path := program.Program{Body: program.GetPPID, Times: times, Wait: true, Tasks: tasks, Threads: true}.Write(t)
	cmd := exec.CommandContext(t.Context(), path)
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	done := make(chan error, 1)
	cfg.Target = target.Spec{PIDs: []int{cmd.Process.Pid}}
	started := make(chan struct{})
	cfg.Verbose = func(s string) {
		if s == "events are enabled" {
			close(started)
		}
	}
	go func() {
		<-started
		in.Close()
		done <- cmd.Wait()
	}()
	_, got := run(t, cfg)
	check(t, <-done)
	if n := got.samples[getppid]; n != times*(tasks+1) {
		t.Errorf("%d samples, want %d", n, times*(tasks+1))
	}
	mine := howMany(got, func(m *perfdata.Mmap2) bool { return m.Filename == path })
	others := howMany(got, func(c *perfdata.Comm) bool { return int(c.PID) != cmd.Process.Pid })
	if mine != 1 || others != 0 {
		t.Errorf("%d mappings of the process and %d names of others, want 1 and 0", mine, others)
	}
}

// TestOverwrite keeps the newest samples of more than there is room for.
func TestOverwrite(t *testing.T) {
	cfg := config(t, getppid)
	cfg.Overwrite, cfg.RingPages, cfg.PerThread, cfg.Inherit, cfg.Time = true, 1, true, false, true
	cfg.Command = []string{caller(t, 20000)}
	_, got := run(t, cfg)
	if n := got.samples[getppid]; n < 10 || n > 1000 {
		t.Errorf("%d samples, want as many as a page has room for", n)
	}
	if exec := howMany(got, func(c *perfdata.Comm) bool { return c.Exec }); exec != 1 {
		t.Errorf("%d records of the execution: those are not to be overwritten", exec)
	}
}

// TestSwitch begins another file for each signal, and keeps the newest ones.
func TestSwitch(t *testing.T) {
	cfg := config(t, "cpu-clock")
	cfg.Target.System, cfg.Frequency, cfg.Period, cfg.Inherit = true, 100, 0, true
	requests := make(chan os.Signal)
	signals := make(chan os.Signal, 1)
	dumped := make(chan string, 10)
	cfg.Switch, cfg.Signals = Switch{Requests: requests, MaxFiles: 2}, signals
	cfg.Notify = func(s string) {
		if strings.Contains(s, "Dump") {
			dumped <- s
		}
	}
	go func() {
		for range 3 {
			requests <- syscall.SIGUSR2
			<-dumped
		}
		signals <- syscall.SIGINT
	}()
	result, err := Run(cfg)
	check(t, err)
	if result.Files != 4 || result.Signal != syscall.SIGINT {
		t.Errorf("%d files, signal %v; want 4 and an interrupt", result.Files, result.Signal)
	}
	files, err := filepath.Glob(cfg.Output + ".*")
	check(t, err)
	if len(files) != 2 {
		t.Fatalf("files %v, want the last 2", files)
	}
	for _, f := range files {
		got := read(t, f)
		if howMany(got, func(m *perfdata.Mmap2) bool { return true }) == 0 {
			t.Errorf("%s does not say what processes have mapped", f)
		}
	}
}

// TestFullDisk records to a full disk. The file is complete up to that point, and has its features.
func TestFullDisk(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, getppid)
	dir := t.TempDir()
	check(t, unix.Mount("none", dir, "tmpfs", 0, "size=3m"))
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	cfg.Output = filepath.Join(dir, "perf.data")
	cfg.Command = []string{caller(t, 50_000_000)} // takes hours unless it is killed
	result, err := Run(cfg)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), cfg.Output) {
		t.Fatalf("ended with %v, want it to say that there is no room for %s", err, cfg.Output)
	}
	got := read(t, cfg.Output)
	if got.stats.Truncated || got.samples[getppid] < 10000 || uint64(got.samples[getppid]) != result.Samples {
		t.Errorf("%d samples of %d, %+v", got.samples[getppid], result.Samples, got.stats)
	}
	if got.features.Text(perfdata.FeatureHostname) == "" {
		t.Errorf("the file has the features %v", got.features.IDs())
	}
}

// TestBadOutput checks the errors for output files.
func TestBadOutput(t *testing.T) {
	cfg := config(t, "cpu-clock")
	cfg.Command = []string{"true"}
	cfg.Output = filepath.Join(t.TempDir(), "none", "perf.data")
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), cfg.Output) {
		t.Errorf("%v, want it to name %s", err, cfg.Output)
	}
}

// TestLost checks that samples in the file and lost samples add up to all.
func TestLost(t *testing.T) {
	cfg := config(t, getppid)
	const times = 50_000
	cfg.RingPages, cfg.PerThread, cfg.Inherit = 1, true, false
	cfg.Command = []string{caller(t, times)}
	result, got := run(t, cfg)
	if result.Lost == 0 {
		t.Skip("nothing was lost: the ring was read as fast as it was filled")
	}
	if all := uint64(got.samples[getppid]) + result.Lost; all < times || all > times+100 { // records that are no samples are lost, too
		t.Errorf("%d samples and %d lost, want %d in all", got.samples[getppid], result.Lost, times)
	}
}

// TestCPUsComeAndGo takes a CPU offline and brings it back, twice, and finds each call there and elsewhere in the file.
func TestCPUsComeAndGo(t *testing.T) {
	turn := require.SwitchCPU(t, 1)
	const getppidReturn = "syscalls:sys_exit_getppid"
	path := caller(t, 1000)
	for _, test := range []struct {
		name, events string
		change       func(*Config)
	}{
		{"one event", getppid, func(*Config) {}},
		{"several events", getppid + "," + getppidReturn, func(*Config) {}},
		{"samples that differ", "syscalls:sys_enter_getppid/call-graph=fp/," + getppidReturn, func(*Config) {}},
		{"a group", "{" + getppid + "," + getppidReturn + "}", func(*Config) {}},
		{"compressed", getppid + "," + getppidReturn, func(c *Config) { c.Compression = 1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			change := func(c *Config) {
				list, err := event.Host().Parse(test.events)
				check(t, err)
				c.Events = list
				test.change(c)
			}
			got := comeAndGo(t, turn, change, func(cpu int) {
				if err := perfevent.OnCPU(cpu, exec.Command(path).Run); err != nil {
					t.Error(err)
				}
			})
			events := strings.Count(test.events, "getppid")
			if n := got.comms["program"]; n != events*5000 || events > 1 && got.samples[getppidReturn] < 5000 {
				t.Errorf("%d samples, %v, want %d", n, got.samples, events*5000)
			}
		})
	}
}

// comeAndGo records the system while CPU 1 goes offline and comes back, twice. on runs something on a CPU: in turns on CPU 1, which has to be recorded
// again, and on CPU 0, five times in all.
func comeAndGo(t *testing.T, turn func(online string), change func(*Config), on func(cpu int)) recording {
	t.Helper()
	joined := make(chan string, 2)
	return during(t, func(c *Config) {
		change(c)
		notify := c.Notify
		c.Notify = func(s string) {
			notify(s)
			if strings.HasPrefix(s, "CPU 1 has come online") {
				joined <- s
			}
		}
	}, func() {
		on(1)
		for range 2 {
			turn("0")
			on(0)
			turn("1")
			select {
			case s := <-joined:
				if s != "CPU 1 has come online and is recorded from now on" {
					t.Error(s)
				}
			case <-time.After(10 * time.Minute):
				t.Error("CPU 1 has not joined")
			}
			on(1)
		}
	})
}

// TestUnwoundCPUsComeAndGo runs programs on a CPU before and after it was offline: all have whole user callchains.
func TestUnwoundCPUsComeAndGo(t *testing.T) {
	turn := require.SwitchCPU(t, 1)
	for each := 2 * time.Second; ; each *= 4 { // on a busy machine, others run first
		var output string
		var pids []int32
		comeAndGo(t, turn, func(c *Config) {
			unwound := unwoundConfig(t, "cpu-clock:u")
			unwound.Target, unwound.Verbose, unwound.Timeout = c.Target, c.Verbose, 0
			*c, output = unwound, unwound.Output
		}, func(cpu int) {
			ctx, cancel := context.WithTimeout(t.Context(), each)
			defer cancel()
			cmd := exec.CommandContext(ctx, deep)
			if err := perfevent.OnCPU(cpu, cmd.Start); err != nil {
				t.Error(err)
				return
			}
			_ = cmd.Wait() // it runs until it is killed
			pids = append(pids, int32(cmd.Process.Pid))
		})
		got := readUnwoundFile(t, output, "deep-"+runtime.GOARCH)
		t.Logf("%v: %+v", pids, got)
		if len(got.pids) == 5 {
			return
		}
		if each > 30*time.Second {
			t.Fatalf("whole callchains of %v, want all of %v", got.pids, pids)
		}
	}
}

// TestProcessOnCPUThatComesBack records a process that runs on a CPU which was offline in between.
func TestProcessOnCPUThatComesBack(t *testing.T) {
	turn := require.SwitchCPU(t, 1)
	require.Tracefs(t)
	cmd := exec.Command(program.Program{Body: program.GetPPID, Times: 1000, Wait: true}.Write(t))
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	change := func(c *Config) {
		list, err := event.Host().Parse(getppid)
		check(t, err)
		c.Events, c.Target = list, target.Spec{PIDs: []int{cmd.Process.Pid}}
	}
	got := during(t, change, func() {
		for _, state := range []string{"0", "1"} {
			turn(state)
		}
		var second unix.CPUSet
		second.Set(1)
		if err := unix.SchedSetaffinity(cmd.Process.Pid, &second); err != nil {
			t.Error(err)
		}
		in.Write([]byte("x"))
		cmd.Wait()
	})
	if n := got.samples[getppid]; n != 1000 {
		t.Errorf("%d samples, want 1000", n)
	}
}

// TestTellsCPUs checks which changes of CPUs bperf reports.
func TestTellsCPUs(t *testing.T) {
	came := target.CPUChange{Number: 7, CPU: 3, Online: true}
	gone := target.CPUChange{Number: 7, CPU: 3}
	for _, test := range []struct {
		name   string
		cfg    Config
		target target.Target
		change target.CPUChange
		want   string
	}{
		{"came", Config{}, target.Target{}, came, "CPU 3 has come online"},
		{"gone", Config{}, target.Target{}, gone, ""},
		{"lost", Config{}, target.Target{}, target.CPUChange{Online: true}, "messages of CPUs"},
		{"threads", Config{PerThread: true}, target.Target{}, came, ""},
		{"others", Config{Spec: session.Spec{Target: target.Spec{CPUs: []int{1}}}}, target.Target{CPUs: []int{1}}, came, ""},
		{"one of them", Config{Spec: session.Spec{Target: target.Spec{CPUs: []int{1, 3}}}}, target.Target{CPUs: []int{1, 3}}, came, "CPU 3 has come online"},
		{"was offline", Config{Spec: session.Spec{Target: target.Spec{CPUs: []int{1, 3}}}}, target.Target{CPUs: []int{1}, Offline: []int{3}}, came, "CPU 3 has come online"},
	} {
		said := ""
		test.cfg.Notify = func(s string) { said += s }
		s := &recorder{cfg: &test.cfg, sources: &sources{target: test.target}}
		s.followCPU(test.change, func(int) error { return errors.New("no room") })
		if (said == "") != (test.want == "") || !strings.Contains(said, test.want) {
			t.Errorf("%s: %q, want %q", test.name, said, test.want)
		}
	}
}

// newCgroup creates a cgroup for the duration of a test. It skips the test if perf events cannot use one.
func newCgroup(t *testing.T) (dir string) {
	t.Helper()
	require.Root(t)
	root := snapshot.CgroupRoot("/proc")
	if v1, err := target.PerfCgroupsAreV1(); err != nil || v1 || root == "" {
		t.Skip("needs cgroup2 with perf events")
	}
	dir = filepath.Join(root, "bperf-record-"+strconv.Itoa(os.Getpid()))
	check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("the cgroup is still there")
	})
	return dir
}

// TestCgroup records only tasks of a cgroup.
func TestCgroup(t *testing.T) {
	dir := newCgroup(t)
	cfg := config(t, getppid)
	path := caller(t, 300)
	cfg.Target.System, cfg.Target.Cgroups = true, []string{filepath.Base(dir)}
	cfg.EventCgroups = cfg.Target.Cgroups
	cfg.Command = []string{"sh", "-c", fmt.Sprintf("%s; echo $$ > %s/cgroup.procs; %s", path, dir, path)}
	_, got := run(t, cfg)
	if n := got.samples[getppid]; n != 300 {
		t.Errorf("%d samples, want the 300 in the cgroup", n)
	}
}

// TestBuildIDsOfOthers records while another process's event asks the kernel for build IDs. The recording has none.
func TestBuildIDsOfOthers(t *testing.T) {
	require.Root(t)
	system, err := target.Spec{System: true}.Resolve()
	check(t, err)
	for _, cpu := range system.CPUs {
		attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SampleType: perfevent.TrailerFormat,
			Flags: perfdata.AttrMmap | perfdata.AttrMmap2 | perfdata.AttrBuildID}
		e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
		check(t, err)
		defer e.Close()
		ring, err := e.Map(4)
		check(t, err)
		defer ring.Close()
	}
	cfg := config(t, "dummy") // samples that came as fast as a clock can tick would leave no room for other records
	cfg.Command = []string{program.Program{Body: program.GetPPID, Times: 1}.Write(t)}
	_, err = Run(cfg)
	check(t, err)
	r, err := perfdata.Open(cfg.Output)
	check(t, err)
	defer r.Close()
	mapped := 0
	for rec, err := range r.Records() {
		check(t, err)
		if m, ok := rec.Value.(*perfdata.Mmap2); ok && m.Filename == cfg.Command[0] {
			mapped++
		}
		if rec.Type == perfdata.RecordMmap2 && rec.Misc&perfdata.MiscMmapBuildID != 0 {
			t.Errorf("a record says that it has a build ID: %+v", rec.Value)
		}
	}
	if mapped == 0 {
		t.Error("there is no record of the command")
	}
}

// TestTerms records an event several times with different terms, and a program with three processes.
func TestTerms(t *testing.T) {
	require.Tracefs(t)
	const times, tasks, most, stack = 10, 2, 2, 1024
	cfg := config(t, strings.ReplaceAll(fmt.Sprintf("GETPPID/name=plain/,GETPPID/name=none,call-graph=no/,GETPPID/name=own,no-inherit/,"+
		"GETPPID/name=stack,call-graph=dwarf,stack-size=%d/,sched:sched_process_fork/name=deep/,sched:sched_process_fork/name=short,max-stack=%d/", stack, most), "GETPPID", getppid))
	cfg.Callchain = CallchainFP
	cfg.Command = []string{program.Program{Body: program.GetPPID, Times: times, Tasks: tasks}.Write(t)}
	_, got := run(t, cfg)
	want := map[string]int{"plain": (1 + tasks) * times, "none": (1 + tasks) * times, "own": times, "stack": (1 + tasks) * times, "deep": tasks, "short": tasks}
	if !maps.Equal(got.samples, want) {
		t.Errorf("%v, want %v", got.samples, want)
	}
	r, err := perfdata.Open(cfg.Output)
	check(t, err)
	defer r.Close()
	for rec, err := range r.Records() {
		check(t, err)
		s, is := rec.Value.(*perfdata.Sample)
		if !is {
			continue
		}
		frames := 0
		for _, ip := range s.Callchain {
			if ip < perfdata.ContextMax {
				frames++
			}
		}
		name := rec.Event.Name
		right := false
		switch name {
		case "plain", "own": // where user mode was
			right = frames == 1
		case "none":
			right = s.Callchain == nil
		case "stack":
			right = frames == 0
		case "deep":
			right = frames > most
		case "short":
			right = frames == most
		}
		if !right || (name == "stack") != (len(s.UserStack) > 0) || len(s.UserStack) > stack {
			t.Errorf("%s: %d frames, %d bytes of the user's stack", name, frames, len(s.UserStack))
		}
	}
}
