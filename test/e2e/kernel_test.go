package e2e

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestSystemCalls(t *testing.T) {
	require.Tracefs(t)
	for _, times := range []uint64{1, 1000} {
		loop := program.Program{Body: program.GetPPID, Times: times}
		rows := stat(t, "-e", "syscalls:sys_enter_getppid", "--", loop.Write(t))
		if got := rows[0].Value; got != float64(times) {
			t.Errorf("%d calls: counted %v", times, got)
		}
	}
}

func TestPageFaults(t *testing.T) {
	require.Root(t)
	fixAddresses(t)
	faults := func(pages uint64) float64 {
		touch := program.Program{Body: program.Touch, Times: pages}
		return stat(t, "-e", "page-faults", "--", touch.Write(t))[0].Value
	}
	// Starting the program causes the same number of faults in both runs.
	if got, want := faults(program.MaxPages)-faults(1), float64(program.MaxPages-1); got != want {
		t.Errorf("touching %v more pages: counted %v more faults", want, got)
	}
}

// TestContextSwitches compares two events that the kernel counts in different places. A program is switched out each time that it blocks, and
// whenever another task preempts it.
func TestContextSwitches(t *testing.T) {
	require.Tracefs(t)
	const times = 100
	sleep := program.Program{Body: program.Sleep, Times: times}
	rows := stat(t, "-e", "context-switches,sched:sched_switch", "--", sleep.Write(t))
	if rows[0].Value != rows[1].Value || rows[0].Value < times {
		t.Errorf("blocked %d times: counted %v context switches and %v tracepoints", times, rows[0].Value, rows[1].Value)
	}
}

// fixAddresses makes the commands of this test start without address space randomization, because the start address of the stack determines
// the number of pages that its initial content needs.
func fixAddresses(t *testing.T) {
	t.Helper()
	const get, addrNoRandomize = 0xffffffff, 0x0040000 // personality(2)
	runtime.LockOSThread()
	old, _, _ := unix.Syscall(unix.SYS_PERSONALITY, get, 0, 0)
	if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, old|addrNoRandomize, 0, 0); errno != 0 {
		t.Fatal("personality:", errno)
	}
	t.Cleanup(func() {
		unix.Syscall(unix.SYS_PERSONALITY, old, 0, 0)
		runtime.UnlockOSThread()
	})
}
