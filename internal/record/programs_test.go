package record

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// withSub returns a program with BTF that calls a sub-program.
func withSub(name string) *ebpf.ProgramSpec {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	function := func(name string, linkage btf.FuncLinkage) *btf.Func {
		proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
		return &btf.Func{Name: name, Type: proto, Linkage: linkage}
	}
	return &ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		btf.WithFuncMetadata(asm.Call.Label("its_sub").WithSymbol(name), function(name, btf.GlobalFunc)),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 1).WithSymbol("its_sub"), function("its_sub", btf.StaticFunc)),
		asm.Return(),
	}}
}

func loadProgram(t *testing.T, spec *ebpf.ProgramSpec) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(spec)
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// during records the system without samples while f runs.
func during(t *testing.T, change func(*Config), f func()) recording {
	t.Helper()
	cfg := config(t, "dummy")
	cfg.Target.System = true
	change(&cfg)
	stop, signals := make(chan struct{}), make(chan os.Signal, 1)
	cfg.Signals = signals
	started := make(chan struct{})
	verbose := cfg.Verbose
	cfg.Verbose = func(s string) {
		verbose(s)
		if s == "events are enabled" {
			close(started)
		}
	}
	go func() {
		defer close(stop)
		<-started
		f()
		signals <- os.Interrupt
	}()
	_, got := run(t, cfg)
	<-stop
	return got
}

// infos returns the programs and the BTF of a recording, by ID.
func infos(t *testing.T, r recording) (map[uint32]*linear.Info, map[uint32][]byte) {
	t.Helper()
	programs, types := make(map[uint32]*linear.Info), make(map[uint32][]byte)
	if raw, ok := r.features.Raw(perfdata.FeatureBPFProgInfo); ok {
		all, err := linear.DecodePrograms(raw, r.order)
		check(t, err)
		for _, i := range all {
			programs[i.ID] = i
		}
	}
	if raw, ok := r.features.Raw(perfdata.FeatureBPFBTF); ok {
		all, err := linear.DecodeBTF(raw, r.order)
		check(t, err)
		for _, b := range all {
			types[b.ID] = b.Data
		}
	}
	return programs, types
}

// symbols returns the symbols of BPF programs in the recording, by name.
func symbols(r recording) map[string]int {
	all := make(map[string]int)
	for _, v := range r.records {
		if k, ok := v.(*perfdata.KSymbol); ok && k.Flags&perfdata.KSymbolUnregister == 0 {
			all[k.Name]++
		}
	}
	return all
}

// withSuffix counts the symbols of a function.
func withSuffix(all map[string]int, name string) (n int) {
	for symbol, times := range all {
		if strings.HasSuffix(symbol, "_"+name) {
			n += times
		}
	}
	return n
}

// TestPrograms finds programs that were loaded before and programs that come and go during the recording, with all functions, code and BTF.
func TestPrograms(t *testing.T) {
	require.Root(t)
	const before, meanwhile = "record_before", "record_meanwhile"
	loadProgram(t, withSub(before))
	got := during(t, func(*Config) {}, func() {
		p := loadProgram(t, withSub(meanwhile))
		time.Sleep(time.Second) // long enough for the reader of the side band to get a CPU
		p.Close()
	})
	all := symbols(got)
	for _, name := range []string{before, meanwhile} {
		if n := withSuffix(all, name); n != 1 {
			t.Errorf("%d symbols of %s, want 1; there are %v", n, name, all)
		}
	}
	if n := withSuffix(all, "its_sub"); n < 2 {
		t.Errorf("%d symbols of sub-programs, want 2", n)
	}
	programs, types := infos(t, got)
	found := 0
	for _, info := range programs {
		spec, err := linear.LoadBTF(types[info.BTF])
		if err != nil {
			continue // another process's program
		}
		p, err := info.Program(spec)
		check(t, err)
		if p.Name != before && p.Name != meanwhile {
			continue
		}
		found++
		if len(p.Functions) != 2 || p.Functions[1].Name != "its_sub" || len(p.Functions[1].Code) == 0 || all[p.Functions[1].Symbol] == 0 {
			t.Errorf("%s has the functions %+v", p.Name, p.Functions)
		}
	}
	if found != 2 {
		t.Errorf("the code of %d programs, want 2 of the %d", found, len(programs))
	}
}

// TestProgramsOfOthers records one process while another one loads a program. The recording has the symbol of each function once.
func TestProgramsOfOthers(t *testing.T) {
	require.Root(t)
	const name = "record_others"
	for what, events := range map[string]string{"one event": "dummy", "two events": "dummy,page-faults"} {
		t.Run(what, func(t *testing.T) {
			process := exec.CommandContext(t.Context(), "sleep", "600")
			check(t, process.Start())
			t.Cleanup(func() {
				process.Process.Kill()
				process.Wait()
			})
			change := func(c *Config) {
				c.Target = target.Spec{PIDs: []int{process.Process.Pid}}
				c.Events = config(t, events).Events
			}
			got := during(t, change, func() { loadProgram(t, withSub(name)).Close() })
			if n := withSuffix(symbols(got), name); n != 1 {
				t.Errorf("%d symbols, want 1", n)
			}
		})
	}
}

// TestNoPrograms checks that a recording with NoBPF has no BPF programs.
func TestNoPrograms(t *testing.T) {
	require.Root(t)
	loadProgram(t, withSub("record_nothing"))
	got := during(t, func(c *Config) { c.NoBPF = true }, func() {})
	programs, types := infos(t, got)
	events := howMany(got, func(*perfdata.BPFEvent) bool { return true })
	if len(programs)+len(types)+events > 0 {
		t.Errorf("%d programs, %d BTFs, %d records", len(programs), len(types), events)
	}
}

// perfRecords makes perf record the system too, if perf is installed. The returned function ends perf and reads its recording.
func perfRecords(t *testing.T) (end func() recording) {
	t.Helper()
	perf, err := require.FindPerf()
	if err != nil {
		return nil
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, perf, "record", "-q", "-a", "-e", "dummy", "-o", file, "--", "sh", "-c", "echo begun; exec cat")
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Minute
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	check(t, err)
	return func() recording {
		check(t, stdin.Close())
		check(t, cmd.Wait())
		return read(t, file)
	}
}

// wholePrograms counts the programs with a name whose code and BTF a recording has.
func wholePrograms(t *testing.T, r recording, name string) (n int) {
	t.Helper()
	programs, types := infos(t, r)
	for _, info := range programs {
		if info.Name == name && len(info.JITed) > 0 && types[info.BTF] != nil {
			n++
		}
	}
	return n
}

// TestShortLivedPrograms loads many programs that live for 1 ms, and finds the symbol of each. Programs without code must be counted as gone. Their
// number depends on how soon the reader gets a CPU, so the test prints it, and the number for perf at the same time.
func TestShortLivedPrograms(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	many := 100 // on a shared machine
	if require.IsGuest() && runtime.GOARCH == "arm64" {
		many = 1000 // guests on amd64 are ten times as slow
	}
	const name = "record_moment"
	perf := perfRecords(t)
	gone := 0
	count := func(c *Config) {
		verbose := c.Verbose
		c.Verbose = func(s string) {
			verbose(s)
			if _, rest, ok := strings.Cut(s, " BPF programs were loaded, and "); ok {
				if _, err := fmt.Sscanf(rest, "%d of them were gone", &gone); err != nil {
					t.Error(err)
				}
			}
		}
	}
	got := during(t, count, func() {
		spec := withSub(name)
		for i := range many {
			p, err := ebpf.NewProgram(spec)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
			p.Close()
			if i%32 == 31 { // wait until the kernel has freed them before loading more
				if err := kernel.WaitForBPF(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	n, whole := withSuffix(symbols(got), name), wholePrograms(t, got, name)
	t.Logf("of %d programs, %d have their symbol, and %d are whole", many, n, whole)
	if perf != nil {
		theirs := perf()
		wholeToo := wholePrograms(t, theirs, name)
		t.Logf("with perf, %d have their symbol, and %d are whole", withSuffix(symbols(theirs), name), wholeToo)
		if require.IsGuest() && whole < wholeToo-many/100 { // a CPU of a guest can stand still for longer than a program lives
			t.Errorf("%d are whole, and %d with perf", whole, wholeToo)
		}
	}
	if n != many {
		t.Errorf("%d symbols, want %d", n, many)
	}
	if whole+gone < many || whole == 0 { // other processes may have loaded some, too
		t.Errorf("%d are whole, and %d are said to be gone", whole, gone)
	}
}

// TestProgramsReport reports records that found no room in the rings.
func TestProgramsReport(t *testing.T) {
	p := new(programs)
	p.lost.Add(42)
	text, some := p.report()
	if !some || !strings.Contains(text, "42 loads and unloads were not seen") {
		t.Errorf("%q", text)
	}
	if text, some := new(programs).report(); some {
		t.Errorf("nothing happened, and %q is reported", text)
	}
}
