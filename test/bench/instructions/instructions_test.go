// Package instructions measures the instructions that counting inside a BPF program adds to each run of the program, for bperf and upstream
// perf. It runs in an arm64 guest, where each instruction takes a nanosecond:
//
//	go run ./test/guest -perf -smp 1 ./test/bench/instructions
package instructions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// events are the measured events: each list has the first n of them. Six of them need a counter, and none is multiplexed.
var events = strings.Split("instructions,cycles,instructions:u,cycles:u,instructions:k,cycles:k,page-faults,context-switches", ",")

// limits are the largest allowed ratios of bperf's instructions to perf's, by number of events.
var limits = map[int]float64{1: 0.9, 4: 0.65, 8: 0.5}

// TestInstructions prints the table, and fails if a ratio is above its limit.
func TestInstructions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	perf := require.UpstreamPerf(t)
	prog, id := loadEmpty(t)
	bare := measure(t, prog)
	t.Logf("instructions that counting adds to a run of an empty program, which without is %.0f", bare)
	t.Logf("%6s %8s %8s %14s %8s", "events", "bperf", "perf", "reading alone", "bperf/perf")
	for _, n := range []int{1, 4, 8} {
		list := strings.Join(events[:n], ",")
		bperf := session(t, prog, "bperf", "stat", "-b", id, "-e", list) - bare
		upstream := session(t, prog, perf, "stat", "-a", "-b", id, "-e", list) - bare
		alone := reading(t, prog, events[:n]) - bare
		ratio := bperf / upstream
		t.Logf("%6d %8.0f %8.0f %14.0f %7.2fx", n, bperf, upstream, alone, ratio)
		if ratio > limits[n] {
			t.Errorf("with %d events it is %.2f times perf's, at most %.2f", n, ratio, limits[n])
		}
	}
	if again := measure(t, prog); again-bare > 1 || bare-again > 1 {
		t.Errorf("a run without counting is %.0f instructions in the end, and was %.0f", again, bare)
	}
}

// loadEmpty loads a program that does nothing.
func loadEmpty(t *testing.T) (p *ebpf.Program, id string) {
	t.Helper()
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	f := &btf.Func{Name: "empty", Type: proto, Linkage: btf.GlobalFunc}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "empty", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol("empty"), f), asm.Return()}})
	check(t, err)
	t.Cleanup(func() { p.Close() })
	info, err := p.Info()
	check(t, err)
	n, _ := info.ID()
	return p, fmt.Sprint(n)
}

// measuredRuns is the number of runs in measure, in measuredTimes calls.
const (
	measuredTimes = 101
	measuredRuns  = 200 * measuredTimes
)

// measure returns the instructions of a run: the median of several means, because of occasional interrupts.
func measure(t *testing.T, p *ebpf.Program) float64 {
	t.Helper()
	var means [measuredTimes]float64
	for i := range means {
		_, mean, err := p.Benchmark(make([]byte, 64), measuredRuns/measuredTimes, nil)
		check(t, err)
		means[i] = float64(mean)
	}
	slices.Sort(means[:])
	return means[measuredTimes/2]
}

// session returns the instructions of a run while a tool counts.
func session(t *testing.T, p *ebpf.Program, args ...string) float64 {
	t.Helper()
	s := start(t, args...)
	defer s.end(t)
	return measure(t, p)
}

// running is a session of a tool.
type running struct {
	*exec.Cmd
	out *strings.Builder // its standard error
}

// start starts a session, and waits until it counts.
func start(t *testing.T, args ...string) running {
	t.Helper()
	ctl, ack := fifo(t, "ctl"), fifo(t, "ack")
	s := running{exec.Command(args[0], args[1:]...), new(strings.Builder)}
	s.Args = append(s.Args, "--control", "fifo:"+ctl.Name()+","+ack.Name())
	s.Stderr = s.out
	check(t, s.Start())
	_, err := ctl.WriteString("ping\n")
	check(t, err)
	check(t, ack.SetReadDeadline(time.Now().Add(10*time.Minute)))
	if _, err := ack.Read(make([]byte, 8)); err != nil {
		s.end(t)
		t.Fatalf("%v: %v\n%s", args, err, s.out)
	}
	return s
}

// end ends a session. When it returns, the session has printed its counts.
func (s running) end(t *testing.T) {
	t.Helper()
	check(t, s.Process.Signal(syscall.SIGINT))
	s.Wait()
}

// TestSessions lets up to 64 sessions count in one program. A run may not cost more than with one session, and each session must count every
// run.
func TestSessions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	require.BPFFS(t)
	prog, id := loadEmpty(t)
	bare := measure(t, prog)
	t.Logf("instructions that counting adds to a run of an empty program, which without is %.0f", bare)
	t.Logf("%6s %8s %8s", "events", "sessions", "added")
	for _, n := range []int{1, 4} {
		list := strings.Join(events[:n], ",")
		var one float64
		for _, sessions := range []int{1, 8, 32, 64} {
			all := make([]running, sessions)
			for i := range all {
				all[i] = start(t, "bperf", "stat", "-j", "-b", id, "-e", list)
			}
			added := measure(t, prog) - bare
			for i, s := range all {
				s.end(t)
				if want := fmt.Sprintf(`"runs" : %d,`, measuredRuns); strings.Count(s.out.String(), want) != n {
					t.Errorf("session %d of %d did not count %d runs:\n%s", i, sessions, measuredRuns, s.out)
				}
			}
			t.Logf("%6d %8d %8.0f", n, sessions, added)
			if sessions == 1 {
				one = added
			}
			if added > 1.05*one {
				t.Errorf("%d sessions add %.0f instructions, one %.0f", sessions, added, one)
			}
		}
	}
}

func fifo(t *testing.T, name string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// reading returns the instructions of a run with programs at its entry and exit that only read the events.
func reading(t *testing.T, p *ebpf.Program, names []string) float64 {
	t.Helper()
	var code asm.Instructions
	for _, name := range names {
		event, array := open(t, name)
		defer event.Close()
		defer array.Close()
		code = append(code, asm.LoadMapPtr(asm.R1, array.FD()), asm.LoadImm(asm.R2, 0xffffffff, asm.DWord), asm.FnPerfEventRead.Call())
	}
	code = append(code, asm.Mov.Imm(asm.R0, 0), asm.Return())
	for _, at := range []ebpf.AttachType{ebpf.AttachTraceFEntry, ebpf.AttachTraceFExit} {
		probe, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "reading", Type: ebpf.Tracing, AttachType: at, AttachTarget: p, AttachTo: "empty",
			License: "GPL", Instructions: code})
		check(t, err)
		defer probe.Close()
		l, err := link.AttachTracing(link.TracingOptions{Program: probe})
		check(t, err)
		defer l.Close()
	}
	return measure(t, p)
}

// open opens an event on CPU 0 and puts it into a map.
func open(t *testing.T, name string) (*perfevent.Event, *ebpf.Map) {
	t.Helper()
	attrs := map[string]perfdata.Attr{
		"instructions": {Config: unix.PERF_COUNT_HW_INSTRUCTIONS}, "cycles": {Config: unix.PERF_COUNT_HW_CPU_CYCLES},
		"page-faults":      {Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults},
		"context-switches": {Type: perfdata.TypeSoftware, Config: perfdata.SoftwareContextSwitches},
	}
	base, modifier, _ := strings.Cut(name, ":")
	attr, ok := attrs[base]
	if !ok {
		t.Fatalf("event %s is not known", name)
	}
	switch modifier {
	case "u":
		attr.Flags = perfdata.AttrExcludeKernel
	case "k":
		attr.Flags = perfdata.AttrExcludeUser
	}
	e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: 0})
	check(t, err)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerfEventArray, MaxEntries: 1})
	check(t, err)
	check(t, m.Put(uint32(0), uint32(e.FD())))
	return e, m
}
