package record

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/require"
)

// deep is a program without frame pointers that runs forever. It is linked to a fixed address.
const deep = "../userstack/testdata/deep-" + runtime.GOARCH

// startDeep starts the program until the test ends.
func startDeep(t *testing.T) (pid int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, deep)
	cmd.WaitDelay = time.Minute
	check(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process.Pid
}

// unwoundSamples counts the samples of the program in a recording, by event.
type unwoundSamples struct {
	whole, cut map[string]int
	pids       map[int32]bool // with a whole stack
}

// readUnwound reads a recording of the program, and checks the user callchains that are whole. It reads the samples of processes with
// a name; empty for all.
func readUnwound(t *testing.T, r *perfdata.Reader, comm string) unwoundSamples {
	t.Helper()
	f, err := object.Search{}.Open(deep, "")
	check(t, err)
	defer f.Close()
	out, comms := unwoundSamples{map[string]int{}, map[string]int{}, map[int32]bool{}}, map[int32]string{}
	for rec, err := range r.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Comm:
			comms[v.PID] = v.Comm
		case *perfdata.Fork:
			if comms[v.PID] == "" {
				comms[v.PID] = comms[v.ParentPID]
			}
		case *perfdata.Sample:
			if rec.Event == nil {
				t.Fatalf("a sample at %d is of no event", rec.Offset)
			}
			if comm != "" && comms[v.PID] != comm {
				continue
			}
			if a := rec.Event.Attr; a.Flags&perfdata.AttrExcludeCallchainUser != 0 || a.SampleType&perfdata.SampleStackUser != 0 {
				t.Fatalf("%s has the attributes %+v", rec.Event.Name, a)
			}
			names := userNames(f, v.Callchain)
			if len(names) < 2 || names[len(names)-1] != "_start" || names[len(names)-2] != "work" {
				out.cut[rec.Event.Name]++
				continue
			}
			out.whole[rec.Event.Name]++
			out.pids[v.PID] = true
			if n := slices.Index(names, "leaf"); n >= 0 && len(names)-n != 1+40+2 { // descend calls itself
				t.Errorf("a stack of %d frames behind leaf: %q", len(names)-n, names)
			}
		}
	}
	return out
}

// readUnwoundFile reads a file with readUnwound.
func readUnwoundFile(t *testing.T, name, comm string) unwoundSamples {
	t.Helper()
	r, err := perfdata.Open(name)
	check(t, err)
	defer r.Close()
	return readUnwound(t, r, comm)
}

// userNames returns the functions of the user's part of a callchain, the innermost first.
func userNames(f *object.File, chain []uint64) (names []string) {
	for i, address := range chain[slices.Index(chain, perfdata.ContextUser)+1:] {
		if perfdata.IsContext(address) {
			return nil // the callchain has no part of the user
		}
		if i > 0 {
			address-- // a return address
		}
		name := "?"
		if symbol, ok := f.Symbol(address); ok {
			name = symbol.Name
		}
		names = append(names, name)
	}
	return names
}

// untilWhole records for longer and longer until a recording has whole callchains of all events: a machine that is busy runs others first.
func untilWhole(t *testing.T, events int, record func(timeout time.Duration) (Result, unwoundSamples)) (result Result, got unwoundSamples) {
	t.Helper()
	for timeout := time.Second / 2; len(got.whole) < events && timeout <= 64*time.Second; timeout *= 4 {
		result, got = record(timeout)
	}
	if len(got.whole) < events {
		t.Fatalf("whole callchains of %d events: %+v; %v; %v", events, got, result.Chains, result.LeftOut)
	}
	return result, got
}

// unwoundConfig is a recording of user mode: while the kernel calls a signal handler, some registers of the process are the handler's already.
func unwoundConfig(t *testing.T, events string) Config {
	cfg := config(t, events)
	cfg.Period, cfg.Frequency, cfg.Callchain, cfg.RingPages = 0, 999, CallchainBPF, 1024
	return cfg
}

// TestUnwound records a program without frame pointers that runs already. All user callchains of all events are whole, from the first on.
func TestUnwound(t *testing.T) {
	require.Root(t)
	pid := startDeep(t)
	for name, tt := range map[string]struct {
		events string
		change func(*Config)
	}{
		"process":            {"cpu-clock:u", func(c *Config) { c.Target.PIDs = []int{pid} }},
		"thread":             {"cpu-clock:u", func(c *Config) { c.Target.TIDs, c.Inherit = []int{pid}, false }},
		"several events":     {"cpu-clock:u,task-clock:u", func(c *Config) { c.Target.PIDs = []int{pid} }},
		"group":              {"{cpu-clock:u,task-clock:u}", func(c *Config) { c.Target.PIDs = []int{pid} }},
		"group that is read": {"{cpu-clock:u,page-faults:u}:S", func(c *Config) { c.Target.PIDs = []int{pid} }},
		"user callchains":    {"cpu-clock:u", func(c *Config) { c.Target.PIDs, c.NoKernel = []int{pid}, true }},
		"period":             {"cpu-clock:u", func(c *Config) { c.Target.PIDs, c.Frequency, c.Period = []int{pid}, 0, 1_000_000 }},
		"records at the end": {"cpu-clock:u", func(c *Config) { c.Target.PIDs, c.Tail = []int{pid}, true }},
		"many fields, clock": {"cpu-clock:u", func(c *Config) {
			c.Target.PIDs, c.Addresses, c.Weight, c.Cgroups, c.ClockID = []int{pid}, true, true, true, new(int32(1))
		}},
		"term":       {"cpu-clock/call-graph=bpf/u", func(c *Config) { c.Target.PIDs, c.Callchain = []int{pid}, CallchainNone }},
		"compressed": {"cpu-clock:u", func(c *Config) { c.Target.PIDs, c.Compression = []int{pid}, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "process" {
				require.AnyArch(t)
			}
			events := strings.Count(tt.events, "clock:u") + strings.Count(tt.events, "/u")
			result, got := untilWhole(t, events, func(timeout time.Duration) (Result, unwoundSamples) {
				cfg := unwoundConfig(t, tt.events)
				tt.change(&cfg)
				cfg.Timeout = timeout
				result, err := Run(cfg)
				check(t, err)
				return result, readUnwoundFile(t, cfg.Output, "")
			})
			all := uint64(0)
			for _, n := range got.whole {
				all += uint64(n)
			}
			if c := result.Chains; len(got.cut) > 0 || c.Missing > 0 || c.Samples != all || c.Cut[userstack.Outermost] != all || result.LeftOut.String() != "" {
				t.Errorf("%+v; %v", got, result.Chains)
			}
		})
	}
}

// TestUnwoundSystem records all processes: there is an unwind table soon after the first sample of the program. Other callchains are counted as cut.
func TestUnwoundSystem(t *testing.T) {
	require.Root(t)
	startDeep(t)
	online, err := procfs.OnlineCPUs()
	check(t, err)
	for name, change := range map[string]func(*Config){
		"system": func(c *Config) { c.Target.System = true },
		"CPUs":   func(c *Config) { c.Target.CPUs = online },
	} {
		t.Run(name, func(t *testing.T) {
			_, got := untilWhole(t, 1, func(timeout time.Duration) (Result, unwoundSamples) {
				cfg := unwoundConfig(t, "cpu-clock:u")
				change(&cfg)
				cfg.Timeout = timeout
				result, err := Run(cfg)
				check(t, err)
				return result, readUnwoundFile(t, cfg.Output, "deep-"+runtime.GOARCH)
			})
			t.Logf("%+v", got)
		})
	}
}

// TestUnwoundCommand records processes that a command starts, into a pipe. Their first callchains are cut, until bperf knows their mappings.
func TestUnwoundCommand(t *testing.T) {
	require.Root(t)
	const script = "exec >/dev/null 2>&1; " + deep + " & first=$!; " + deep + " & trap \"kill $first $!; exit\" TERM INT HUP; wait"
	result, got := untilWhole(t, 1, func(timeout time.Duration) (Result, unwoundSamples) {
		var stream bytes.Buffer
		var result Result
		got := unwoundSamples{}
		for ; len(got.pids) < 2 && timeout <= 64*time.Second; timeout *= 4 {
			cfg := unwoundConfig(t, "cpu-clock:u")
			cfg.Command, cfg.Stream, cfg.Timeout = []string{"sh", "-c", script}, &stream, timeout
			stream.Reset()
			var err error
			result, err = Run(cfg)
			check(t, err)
			r, err := perfdata.NewPipeReader(&stream)
			check(t, err)
			got = readUnwound(t, r, "deep-"+runtime.GOARCH)
			check(t, r.Close())
		}
		return result, got
	})
	cut := uint64(0)
	for end, n := range result.Chains.Cut {
		if userstack.End(end) != userstack.Outermost {
			cut += n
		}
	}
	if len(got.pids) != 2 || uint64(got.cut["cpu-clock:u"]) > cut || result.Chains.Missing > 0 {
		t.Errorf("%+v; %v", got, result.Chains)
	}
}

// TestUnwoundFiles begins another file: it has whole callchains, too.
func TestUnwoundFiles(t *testing.T) {
	require.AnyArch(t)
	pid := startDeep(t)
	cfg := unwoundConfig(t, "cpu-clock:u")
	cfg.Target.PIDs, cfg.Switch = []int{pid}, Switch{Size: 128 << 10, MaxFiles: 3}
	over := make(chan struct{})
	files := 0
	cfg.Done = over
	cfg.Notify = func(text string) {
		t.Log(text)
		if strings.Contains(text, "Dump") {
			if files++; files == 4 {
				close(over)
			}
		}
	}
	result, err := Run(cfg)
	check(t, err)
	if got := readUnwoundFile(t, result.LastOutput, "deep-"+runtime.GOARCH); len(got.cut) > 0 || result.Chains.Missing > 0 {
		t.Errorf("%+v; %v", got, result.Chains)
	}
	if c := result.Chains; c.Samples == 0 || c.Cut[userstack.Outermost] != c.Samples {
		t.Errorf("%+v", c)
	}
}

// TestUnwoundFiltered records with filters and with a user's program. The user callchains of all samples that they keep are whole.
func TestUnwoundFiltered(t *testing.T) {
	require.Root(t)
	require.AnyArch(t)
	pid := startDeep(t)
	f, err := object.Search{}.Open(deep, "")
	check(t, err)
	defer f.Close()
	var filters []string
	for s := range f.Symbols().All() {
		if s.Name == "descend" {
			filters = append(filters, fmt.Sprintf("ip >= %#x && ip < %#x", s.Start, s.End))
		}
	}
	if len(filters) != 1 {
		t.Fatalf("%s has no function descend: %v", deep, filters)
	}
	for name, change := range map[string]func(*Config){
		"filter":  func(c *Config) { c.Events[0].Events[0].Filter = filters[0] },
		"program": func(c *Config) { useProgram(t, c, onsample.Write(t)+":"+onsample.EveryNth) },
		"both": func(c *Config) {
			useProgram(t, c, onsample.Write(t)+":"+onsample.EveryNth)
			c.Events[0].Events[0].Filter = "cpu >= 0"
		},
		"two events": func(c *Config) { c.Events[1].Events[0].Filter = filters[0] },
	} {
		t.Run(name, func(t *testing.T) {
			events := 1 + strings.Count(name, "two")
			result, got := untilWhole(t, events, func(timeout time.Duration) (Result, unwoundSamples) {
				cfg := unwoundConfig(t, []string{"cpu-clock:u", "cpu-clock:u,task-clock:u"}[events-1])
				change(&cfg)
				cfg.Target.PIDs, cfg.Timeout = []int{pid}, timeout
				result, err := Run(cfg)
				check(t, err)
				return result, readUnwoundFile(t, cfg.Output, "")
			})
			if c := result.Chains; result.Filtered == 0 || len(got.cut) > 0 || c.Missing > 0 || c.Cut[userstack.Outermost] != c.Samples {
				t.Errorf("%d samples were dropped; %+v; %v", result.Filtered, got, c)
			}
		})
	}
}

// TestUnwoundOverwrite keeps the newest samples. In each ring, the callchain of the oldest sample can be overwritten.
func TestUnwoundOverwrite(t *testing.T) {
	require.Root(t)
	require.AnyArch(t)
	pid := startDeep(t)
	online, err := procfs.OnlineCPUs()
	check(t, err)
	const pages = 4
	taken, full := 0, pages*os.Getpagesize()/1024 // a sample and its callchain take less than 1 KiB
	result, got := untilWhole(t, 1, func(timeout time.Duration) (Result, unwoundSamples) {
		for ; ; timeout *= 2 {
			cfg := unwoundConfig(t, "cpu-clock:u")
			cfg.Overwrite, cfg.RingPages, cfg.Target.PIDs, cfg.Timeout = true, pages, []int{pid}, timeout
			result, err := Run(cfg)
			check(t, err)
			if taken = int(result.Chains.Samples); taken >= full || timeout > time.Minute {
				return result, readUnwoundFile(t, cfg.Output, "")
			}
		}
	})
	c := result.Chains
	if c.Missing > uint64(len(online)) || c.Missing+c.Cut[userstack.Outermost] != c.Samples || got.whole["cpu-clock:u"]+got.cut["cpu-clock:u"] != taken {
		t.Errorf("%+v; %+v", got, c)
	}
}

// TestUnwoundCgroup records the tasks of a cgroup on all CPUs.
func TestUnwoundCgroup(t *testing.T) {
	require.AnyArch(t)
	dir := newCgroup(t)
	pid := startDeep(t)
	startDeep(t) // in another cgroup
	check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644))
	result, got := untilWhole(t, 1, func(timeout time.Duration) (Result, unwoundSamples) {
		cfg := unwoundConfig(t, "cpu-clock:u")
		cfg.Target.System, cfg.Target.Cgroups = true, []string{filepath.Base(dir)}
		cfg.EventCgroups, cfg.Timeout = cfg.Target.Cgroups, timeout
		result, err := Run(cfg)
		check(t, err)
		return result, readUnwoundFile(t, cfg.Output, "")
	})
	if len(got.pids) != 1 || !got.pids[int32(pid)] || result.Chains.Missing > 0 {
		t.Errorf("%+v; %v", got, result.Chains)
	}
}

// TestUnwoundRefused combines it with what it does not work with.
func TestUnwoundRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--per-thread": func(c *Config) { c.PerThread, c.Inherit = true, false },
		"call-graph=fp": func(c *Config) {
			spec, err := ebpf.LoadCollectionSpec(onsample.Write(t))
			check(t, err)
			delete(spec.Programs, onsample.Refused)
			loaded, err := ebpf.NewCollection(spec)
			check(t, err)
			t.Cleanup(loaded.Close)
			info, err := loaded.Programs[onsample.EveryNth].Info()
			check(t, err)
			id, _ := info.ID()
			useProgram(t, c, userprog.Source{ID: uint32(id)}.String())
		},
	} {
		cfg := unwoundConfig(t, "cpu-clock")
		cfg.Target.System = true
		change(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		}
	}
}

// TestUnwoundTracepoint plans events beside a tracepoint, whose user callchains are by frame pointers.
func TestUnwoundTracepoint(t *testing.T) {
	var notes []string
	cfg := &Config{Callchain: CallchainBPF, Events: event.List{
		{Events: []*event.Event{{Name: "cpu-clock", Attr: perfdata.Attr{Type: perfdata.TypeSoftware}}}},
		{Events: []*event.Event{{Name: "sched:sched_switch", PMU: "tracepoint", Attr: perfdata.Attr{Type: perfdata.TypeTracepoint}}}},
	}}
	cfg.Notify = func(text string) { notes = append(notes, text) }
	p, err := newPlan(cfg)
	check(t, err)
	clock, tracepoint := p.events[0], p.events[1]
	if !clock.unwound || !clock.attr.Has(perfdata.AttrExcludeCallchainUser) || tracepoint.unwound || tracepoint.attr.Has(perfdata.AttrExcludeCallchainUser) ||
		tracepoint.attr.SampleType&perfdata.SampleCallchain == 0 || len(notes) != 1 || !strings.Contains(notes[0], "frame pointers") {
		t.Errorf("%+v, %+v, %q", clock, tracepoint, notes)
	}
	for _, e := range p.described() {
		if e.Attr.Has(perfdata.AttrExcludeCallchainUser) || e.Attr.SampleType&perfdata.SampleIdentifier == 0 {
			t.Errorf("%s: %+v", e.Name, e.Attr)
		}
	}
}
