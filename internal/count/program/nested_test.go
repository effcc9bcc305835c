package program

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// kernelRuns returns a function that returns the kernel's number of runs of a program. It works until the test ends.
func kernelRuns(t *testing.T, p *ebpf.Program) func() uint64 {
	t.Helper()
	on, err := kernel.CountRuns()
	check(t, err)
	t.Cleanup(func() { on.Close() })
	return func() uint64 {
		s, err := p.Stats()
		check(t, err)
		return s.RunCount
	}
}

// TestInterruptedByItself runs a program repeatedly, and timer interrupts run it, too. Each run has all instructions
// of the loop, interrupted runs have them twice, and no run is lost.
func TestInterruptedByItself(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const rounds = 30_000
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: loop(rounds)})
	c := tracing(t, "instructions", target)
	runs := kernelRuns(t, prog)
	check(t, c.Enable())
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "hrtimer_expire_entry", Program: prog})
	check(t, err)
	var twice bool
	for range 2000 {
		_, err := prog.Run(&ebpf.RunOptions{})
		check(t, err)
		if twice = read(t, c, 0).events[0].Runs.Max > 2*loopInstructions*rounds; twice {
			break
		}
	}
	check(t, l.Close())
	check(t, kernel.WaitForBPF()) // after a grace period the tracepoint does not run it
	check(t, c.Disable())
	r := read(t, c, 0)
	lost, err := c.Losses()
	check(t, err)
	t.Logf("%d runs, %d instructions each at least, at most %d; dropped: %v", r.runs, r.events[0].Runs.Min, r.events[0].Runs.Max, &lost[0].Dropped)
	own, err := prog.Stats()
	check(t, err)
	if !twice && own.RecursionMisses == 0 { // Linux 7.2 does not run the program inside a run of the test
		t.Error("no run was interrupted by another")
	}
	if least := r.events[0].Runs.Min; least < loopInstructions*rounds {
		t.Errorf("a run has %d instructions, less than its loop", least)
	}
	if most := r.events[0].Runs.Max; most > 4*loopInstructions*rounds {
		t.Errorf("a run has %d instructions", most)
	}
	if got := runs(); r.runs != got || r.events[0].Runs.Counted+r.dropped != r.runs || lost[0].Dropped.Total() != r.dropped {
		t.Errorf("%d runs of %d, %d counted, %d dropped: %v", r.runs, got, r.events[0].Runs.Counted, r.dropped, &lost[0].Dropped)
	}
}

// sleeper returns a program that reads from the memory of the process that runs it, and sleeps until the memory has pages.
func sleeper() asm.Instructions {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	return asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMem(asm.R3, asm.R1, 0, asm.DWord).WithSymbol("loop"), &btf.Func{Name: "loop", Type: proto, Linkage: btf.GlobalFunc}),
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnCopyFromUser.Call(),
		asm.Return(),
	}
}

// TestPageFaults lets each run have one page fault, an event that the kernel counts in memory.
func TestPageFaults(t *testing.T) {
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.Syscall, Flags: unix.BPF_F_SLEEPABLE, Instructions: sleeper()})
	c := tracing(t, "page-faults,cpu-clock", target)
	const times = 20
	memory, err := unix.Mmap(-1, 0, times*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(t, err)
	defer unix.Munmap(memory)
	check(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	check(t, c.Enable())
	for i := range times {
		_, err := prog.Run(&ebpf.RunOptions{Context: uint64(uintptr(unsafe.Pointer(&memory[i*unix.Getpagesize()])))})
		check(t, err)
	}
	check(t, c.Disable())
	r := read(t, c, 0)
	faults := r.events[0]
	if r.runs != times || faults.Runs.Counted+r.dropped != times || faults.Value != faults.Runs.Counted || faults.Runs.Min != 1 || faults.Runs.Max != 1 {
		t.Errorf("%d page faults in %d runs, from %d to %d; %d dropped of %d", faults.Value, faults.Runs.Counted, faults.Runs.Min, faults.Runs.Max,
			r.dropped, r.runs)
	}
}

// TestSleepingRuns has two runs that sleep on one CPU at the same time and end in the order in which they began. Neither is counted, because
// other tasks ran before they ended. A run that does not sleep is counted.
func TestSleepingRuns(t *testing.T) {
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.Syscall, Flags: unix.BPF_F_SLEEPABLE, Instructions: sleeper()})
	c := tracing(t, "cpu-clock", target)
	pages := missingPages(t, 2)
	runs := kernelRuns(t, prog)
	check(t, c.Enable())
	runOn := func(address uint64) error {
		_, err := prog.Run(&ebpf.RunOptions{Context: address})
		return err
	}
	var asleep sync.WaitGroup
	for i := range pages.count {
		asleep.Go(func() {
			if err := perfevent.OnCPU(0, func() error { return runOn(pages.address(i)) }); err != nil {
				t.Error(err)
			}
		})
		pages.waitFor(t)
	}
	for i := range pages.count {
		pages.fill(t, i)
	}
	asleep.Wait()
	check(t, runOn(pages.address(0))) // the page exists now
	check(t, c.Disable())
	r := read(t, c, 0)
	lost, err := c.Losses()
	check(t, err)
	if r.runs != 3 || runs() != 3 || r.dropped < 2 || lost[0].Dropped[count.DroppedSwitched] != r.dropped || r.events[0].Runs.Counted != 3-r.dropped {
		t.Errorf("%d runs (%d for the kernel), %d counted, dropped: %v", r.runs, runs(), r.events[0].Runs.Counted, &lost[0].Dropped)
	}
}
