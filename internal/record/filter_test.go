package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// filtered has the samples and losses of one event in a file.
type filtered struct {
	samples []*perfdata.Sample
	dropped uint64 // from records
	missed  uint64 // from records
}

// readFiltered reads the samples and losses of each event in a file, in the order of the events.
func readFiltered(t *testing.T, name string) []filtered {
	t.Helper()
	r, err := perfdata.Open(name)
	check(t, err)
	defer r.Close()
	var all []filtered
	ids := make(map[uint64]int)
	for i, e := range r.Events() {
		for _, id := range e.IDs {
			ids[id] = i
		}
		all = append(all, filtered{})
	}
	for rec, err := range r.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Sample:
			s := *v
			of := &all[ids[v.ID]] // a recording of one event has no IDs in its samples
			of.samples = append(of.samples, &s)
		case *perfdata.LostSamples:
			if v.BPF {
				all[ids[v.ID]].dropped += v.Samples
			} else {
				all[ids[v.ID]].missed += v.Samples
			}
		}
	}
	return all
}

// faults records the page faults of a program with two events: one without and one with a filter. No fault is major, because none waits for a disk.
func faults(t *testing.T, filter string, change func(*Config)) (every, kept filtered, result Result) {
	t.Helper()
	cfg := config(t, "minor-faults,page-faults") // not one of them twice: docs/kernel-notes.md
	cfg.Addresses, cfg.SampleCPU, cfg.PeriodSet = true, true, new(true)
	cfg.Events[1].Events[0].Filter = filter
	change(&cfg)
	result, err := Run(cfg)
	check(t, err)
	all := readFiltered(t, cfg.Output)
	return all[0], all[1], result
}

// pages returns the addresses of samples, in order.
func pages(samples []*perfdata.Sample) []uint64 {
	var all []uint64
	for _, s := range samples {
		all = append(all, s.Addr)
	}
	slices.Sort(all)
	return all
}

// checkFiltered compares the samples that a filter kept with the expected subset of all, and the number of dropped samples with the rest. If the kernel
// did not run the filter, as many samples are missing as bperf reports.
func checkFiltered(t *testing.T, filter string, every, kept filtered, result Result, keeps func(*perfdata.Sample) bool) {
	t.Helper()
	var want []*perfdata.Sample
	for _, s := range every.samples {
		if keeps(s) {
			want = append(want, s)
		}
	}
	all, rest := uint64(len(every.samples)), uint64(len(every.samples)-len(want))
	right := slices.Equal(pages(kept.samples), pages(want)) && result.Filtered == rest
	if result.Missed > 0 {
		t.Logf("%s: the filter was not run for %d samples", filter, result.Missed)
		right = !slices.ContainsFunc(kept.samples, func(s *perfdata.Sample) bool { return !keeps(s) }) && result.Filtered <= rest
	}
	if !right || kept.dropped != result.Filtered || kept.missed != result.Missed || uint64(len(kept.samples))+kept.dropped+kept.missed != all {
		t.Errorf("%s: kept %d and dropped %d (%d in the file) of %d, want %d and %d; missed %d (%d in the file)",
			filter, len(kept.samples), result.Filtered, kept.dropped, all, len(want), rest, result.Missed, kept.missed)
	}
}

// TestFilter keeps exactly the page faults for which an expression is true, and counts the others.
func TestFilter(t *testing.T) {
	const touched = 200
	path := program.Program{Body: program.Touch, Times: touched}.Write(t)
	command := func(cfg *Config) { cfg.Command = []string{path} }
	// Its pages are at the same addresses in each run: the program is not relocated.
	every, _, _ := faults(t, "cpu >= 0", command)
	count := make(map[uint64]int) // by instruction
	for _, s := range every.samples {
		count[s.IP]++
	}
	var writes uint64
	for ip, n := range count {
		if n >= touched {
			writes = ip
		}
	}
	if writes == 0 {
		t.Fatalf("no instruction touches %d pages: %v", touched, count)
	}
	touches := slices.DeleteFunc(slices.Clone(every.samples), func(s *perfdata.Sample) bool { return s.IP != writes })
	addrs := pages(touches)
	lowest, middle := addrs[0], addrs[touched/2]

	is := func(b bool) func(*perfdata.Sample) bool { return func(*perfdata.Sample) bool { return b } }
	for _, tt := range []struct {
		filter string
		keeps  func(*perfdata.Sample) bool
		want   int // -1 if unknown
	}{
		{"cpu >= 0", is(true), -1},
		{"cpu == 4096", is(false), 0},
		{fmt.Sprintf("ip == %#x", writes), func(s *perfdata.Sample) bool { return s.IP == writes }, touched},
		{fmt.Sprintf("ip > %#x, ip < %#x", writes-1, writes+1), func(s *perfdata.Sample) bool { return s.IP == writes }, touched},
		{fmt.Sprintf("ip != %#x", writes), func(s *perfdata.Sample) bool { return s.IP != writes }, -1},
		{fmt.Sprintf("ip == %#x && addr >= %#x", writes, middle),
			func(s *perfdata.Sample) bool { return s.IP == writes && s.Addr >= middle }, touched - touched/2},
		{fmt.Sprintf("addr >= %d, addr < %d || addr > %d, ip == %d", lowest, middle, ^uint64(0)-1, writes),
			func(s *perfdata.Sample) bool { return s.IP == writes && s.Addr < middle }, touched / 2},
		{fmt.Sprintf("!(ip == %d) || addr & %d", writes, os.Getpagesize()),
			func(s *perfdata.Sample) bool { return s.IP != writes || s.Addr&uint64(os.Getpagesize()) != 0 }, -1},
		{"cpu == 0", func(s *perfdata.Sample) bool { return s.CPU == 0 }, -1},
		{"cpu != 0", func(s *perfdata.Sample) bool { return s.CPU != 0 }, -1},
		{"pid & 1", func(s *perfdata.Sample) bool { return s.PID&1 != 0 }, -1},
		{"tid & 2", func(s *perfdata.Sample) bool { return s.TID&2 != 0 }, -1},
		{"period == 1", is(true), -1},
		{"period > 1", is(false), 0},
		{"uid == 0, gid == 0", is(true), -1},
		{"uid > 0 || gid > 0", is(false), 0},
		{"!(uid > 0 || gid > 0) && !(cpu == 4096)", is(true), -1},
	} {
		every, kept, result := faults(t, tt.filter, command)
		if len(every.samples) < touched {
			t.Errorf("%d page faults, want %d and some", len(every.samples), touched)
		}
		checkFiltered(t, tt.filter, every, kept, result, tt.keeps)
		if n := len(kept.samples); tt.want >= 0 && (n > tt.want || n+int(result.Missed) < tt.want) {
			t.Errorf("%s: %d samples, want %d", tt.filter, len(kept.samples), tt.want)
		}
	}
}

// TestFilterByTask keeps one of two processes.
func TestFilterByTask(t *testing.T) {
	require.AnyArch(t)
	const touched = 100
	path := program.Program{Body: program.Touch, Times: touched, Wait: true}.Write(t)
	for _, field := range []string{"pid", "tid"} {
		var pids []int
		var ends []func() error
		for range 2 {
			cmd := exec.CommandContext(t.Context(), path)
			cmd.WaitDelay = time.Minute
			in, err := cmd.StdinPipe()
			check(t, err)
			check(t, cmd.Start())
			pids = append(pids, cmd.Process.Pid)
			ends = append(ends, func() error { in.Close(); return cmd.Wait() })
		}
		filter := fmt.Sprintf("%s == %d", field, pids[1])
		var running sync.WaitGroup
		every, kept, result := faults(t, filter, func(cfg *Config) {
			cfg.Target = target.Spec{PIDs: pids}
			started := sync.OnceFunc(func() {
				running.Go(func() {
					for _, end := range ends {
						if err := end(); err != nil {
							t.Error(err)
						}
					}
				})
			})
			cfg.Verbose = func(s string) {
				if s == "events are enabled" {
					started()
				}
			}
		})
		running.Wait()
		if len(kept.samples)+int(result.Missed) < touched || len(every.samples) < 2*touched {
			t.Errorf("%s: %d samples of %d, want at least %d of %d", filter, len(kept.samples), len(every.samples), touched, 2*touched)
		}
		checkFiltered(t, filter, every, kept, result, func(s *perfdata.Sample) bool { return int(s.PID) == pids[1] })
	}
}

// TestFilterOfClock filters the samples of a clock.
func TestFilterOfClock(t *testing.T) {
	cfg := config(t, "cpu-clock")
	const middle = 1 << 13 // ns
	cfg.Period, cfg.Overrides, cfg.SampleCPU, cfg.Time = 200_000, true, true, true
	cfg.Events[0].Events[0].Filter = fmt.Sprintf("time & %d, pid != 0", middle)
	cfg.Command = []string{program.Program{Body: program.Spin, Times: 100_000_000}.Write(t)}
	result, err := Run(cfg)
	if err != nil && strings.Contains(err.Error(), "from Linux 6.2 on") {
		t.Skip(err)
	}
	check(t, err)
	got := readFiltered(t, cfg.Output)[0]
	for _, s := range got.samples {
		if s.Time&middle == 0 || s.PID == 0 {
			t.Fatalf("a sample of PID %d at %d", s.PID, s.Time)
		}
	}
	if len(got.samples) == 0 || got.dropped == 0 || got.dropped != result.Filtered {
		t.Errorf("%d kept, %d dropped, %d in the file: want some of each", len(got.samples), result.Filtered, got.dropped)
	}
}

// TestFilterByProgram keeps samples within a BPF program.
func TestFilterByProgram(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	const name = "bperf_spins"
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0)}
	for range 3000 {
		code = append(code, asm.Add.Imm(asm.R0, 1))
	}
	spins, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: append(code, asm.Return())})
	check(t, err)
	defer spins.Close()
	info, err := spins.Info()
	check(t, err)
	id, _ := info.ID()
	reader, err := bpfprog.NewReader(bpfprog.Detail{Functions: true})
	check(t, err)
	described, err := reader.Read(uint32(id))
	check(t, err)
	f := described.Functions[0]

	for _, filter := range []string{"bpf_prog == " + name, fmt.Sprintf("bpf_prog == %d && uid == 0", id)} {
		signals := make(chan os.Signal, 1)
		cfg := config(t, "cpu-clock")
		cfg.Period, cfg.Overrides, cfg.Target.System, cfg.Signals = 100_000, true, true, signals
		cfg.Events[0].Events[0].Filter = filter
		started := make(chan struct{})
		begun := sync.OnceFunc(func() { close(started) })
		cfg.Verbose = func(s string) {
			t.Log(s)
			if s == "events are enabled" {
				begun()
			}
		}
		var running sync.WaitGroup
		running.Go(func() {
			<-started
			for range 300 { // each takes about 1 ms
				if _, err := spins.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1000}); err != nil {
					t.Errorf("run %s: %v", name, err)
					break
				}
			}
			signals <- syscall.SIGINT
		})
		result, err := Run(cfg)
		begun() // even if it did not get this far
		running.Wait()
		check(t, err)
		got := readFiltered(t, cfg.Output)[0]
		for _, s := range got.samples {
			if s.IP < uint64(f.Address) || s.IP >= uint64(f.Address)+uint64(f.Size) {
				t.Fatalf("%s: a sample at %#x, the program is at %v", filter, s.IP, f.Address)
			}
		}
		if len(got.samples) == 0 || result.Filtered == 0 {
			t.Errorf("%s: %d kept, %d dropped: want some of each", filter, len(got.samples), result.Filtered)
		}
	}
}

// TestFilterByCgroup keeps samples of one cgroup, and drops those of another.
func TestFilterByCgroup(t *testing.T) {
	require.AnyArch(t)
	path := program.Program{Body: program.Touch, Times: 100}.Write(t)
	dir := newCgroup(t)
	name := filepath.Base(dir)
	command := func(cfg *Config) {
		cfg.Command = []string{"sh", "-c", fmt.Sprintf("%s; echo $$ > %s/cgroup.procs; exec %s", path, dir, path)}
		cfg.Cgroups = true
	}
	info, err := os.Stat(dir)
	check(t, err)
	inode := info.Sys().(*syscall.Stat_t).Ino
	for _, tt := range []struct {
		filter string
		in     bool
	}{{"cgroup == /" + name, true}, {"cgroup != /" + name, false}, {fmt.Sprintf("cgroup == %d", inode), true}} {
		_, kept, result := faults(t, tt.filter, command)
		// The faults of a shell differ between runs; those of the program do not.
		if missed := int(result.Missed); len(kept.samples)+missed < 100 || int(result.Filtered)+missed < 100 || kept.dropped != result.Filtered {
			t.Errorf("%s: %d kept, %d dropped, %d in the file: want 100 at least of each", tt.filter, len(kept.samples), result.Filtered, kept.dropped)
		}
		for _, s := range kept.samples {
			if (s.Cgroup == inode) != tt.in {
				t.Fatalf("%s: a sample of the cgroup %d, its own is %d", tt.filter, s.Cgroup, inode)
			}
		}
	}
}
