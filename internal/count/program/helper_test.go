package program

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/keeper"
	"github.com/bperf/bperf/test/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// loopInstructions is the number of instructions of a round on arm64: sub, cmp, b.ne.
const loopInstructions = 3

// loop returns a program with BTF that has a loop of the given number of rounds.
func loop(rounds int32) asm.Instructions { return loopNamed("loop", rounds) }

func loopNamed(name string, rounds int32) asm.Instructions {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	f := &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
	code := asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol(name), f)}
	if rounds > 0 {
		code = append(code,
			asm.Mov.Imm(asm.R1, rounds),
			asm.Sub.Imm(asm.R1, 1).WithSymbol("round"),
			asm.JNE.Imm(asm.R1, 0, "round"))
	}
	return append(code, asm.Return())
}

// lengthRounds is the number of rounds of loopOfLength for each byte of its packet.
const lengthRounds = 1024

// loopOfLength returns a program with a loop whose rounds depend on its packet's length, up to 127: the verifier follows each round.
func loopOfLength() asm.Instructions {
	code := loopNamed("loop", 0)
	const length = 0 // of struct __sk_buff
	body := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, length, asm.Word),
		asm.And.Imm(asm.R1, 127),
		asm.LSh.Imm(asm.R1, 10), // lengthRounds
		asm.Add.Imm(asm.R1, 1),
		asm.Sub.Imm(asm.R1, 1).WithSymbol("round"),
		asm.JNE.Imm(asm.R1, 0, "round"),
	}
	return append(append(code[:len(code)-1:len(code)-1], body...), asm.Return())
}

// load loads a program for the time of a test.
func load(t testing.TB, spec *ebpf.ProgramSpec) (*ebpf.Program, Target) {
	t.Helper()
	require.Root(t)
	spec.Name, spec.License = "loop", "GPL"
	p, err := ebpf.NewProgram(spec)
	check(t, err)
	t.Cleanup(func() { p.Close() })
	info, err := p.Info()
	check(t, err)
	id, _ := info.ID()
	return p, Target{ID: uint32(id), Name: "loop", Function: "loop", JITed: true}
}

func loadLoop(t testing.TB, rounds int32) (*ebpf.Program, Target) {
	t.Helper()
	return load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: loop(rounds)})
}

// run runs a program the given number of times in one call, because timers interrupt runs soon after a call. It blocks signals until then, because
// the kernel begins again after a signal.
func run(t testing.TB, p *ebpf.Program, times int) {
	t.Helper()
	packet := make([]byte, 64)
	attr := struct { // of union bpf_attr: test
		prog, result, in, out uint32
		data, changed         uint64
		repeat, duration      uint32
		rest                  [9]uint64
	}{prog: uint32(p.FD()), in: uint32(len(packet)), data: uint64(uintptr(unsafe.Pointer(&packet[0]))), repeat: uint32(times)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	check(t, unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before))
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	check(t, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil))
	runtime.KeepAlive(packet)
	if errno != 0 {
		t.Fatal("run a program: ", errno)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == sessionArg {
		fmt.Fprintln(os.Stderr, beSession(os.Args[2], os.Args[3], os.Args[4]))
		os.Exit(1)
	}
	n := m.Run()
	if err := common.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		n = max(n, 1)
	}
	os.Exit(n)
}

// common has the directory through which sessions of these tests share.
var common keeper.Keeper

// keepCPUs opens a session that counts on all CPUs.
func keepCPUs(dir string) (io.Closer, error) {
	list, err := event.Host().Parse("alignment-faults")
	if err != nil {
		return nil, err
	}
	at, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return nil, err
	}
	return shared.Open(shared.Where{Dir: dir}, list, at, shared.Options{})
}

// types returns the kernel's types. Decoding them takes longer than most tests.
var types = sync.OnceValue(btf.NewCache)

// tracing opens a counter for programs that this kernel can trace, or skips the test.
func tracing(t testing.TB, events string, programs ...Target) *Counter {
	t.Helper()
	return traced(t, open(t, events, programs...))
}

// sharing opens a counter that shares with others of these tests.
func sharing(t testing.TB, o Options, events string, programs ...Target) *Counter {
	t.Helper()
	check(t, common.Open(keepCPUs))
	o.Sharing = Sharing{Dir: common.Dir(), Required: true}
	return traced(t, openFor(t, o, events, programs...))
}

// traced skips the test if a program cannot be traced.
func traced(t testing.TB, c *Counter) *Counter {
	t.Helper()
	for i := range c.programs {
		if err := c.programs[i].why; err != nil {
			if require.IsGuest() {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	return c
}

func open(t testing.TB, events string, programs ...Target) *Counter {
	t.Helper()
	return openFor(t, Options{}, events, programs...)
}

func openFor(t testing.TB, o Options, events string, programs ...Target) *Counter {
	t.Helper()
	require.Tracefs(t)
	list, err := event.Host().Parse(events)
	check(t, err)
	at, err := target.Spec{System: true}.Resolve()
	check(t, err)
	c, err := openWith(list, programs, at, o, types())
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// result has the counts of a program on all CPUs.
type result struct {
	events              []count.Cell // sums
	runs, time, dropped uint64
}

func read(t testing.TB, c *Counter, program int) (r result) {
	t.Helper()
	cells, err := c.Read(nil)
	check(t, err)
	r.events = make([]count.Cell, c.events)
	own := [...]*uint64{ownRuns: &r.runs, ownRunTime: &r.time, ownDropped: &r.dropped}
	for _, cell := range cells {
		if cell.Program != program {
			continue
		}
		if i := cell.Event - c.events; i >= 0 {
			*own[i] += cell.Value
			continue
		}
		sum := &r.events[cell.Event]
		if sum.Runs == nil {
			sum.Runs = &count.Runs{}
		}
		sum.Add(cell.Reading)
		sum.Runs.Add(cell.Runs)
	}
	return r
}
