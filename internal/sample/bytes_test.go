package sample

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/stacks"
)

// faultInWays takes a page fault in each of n stacks while an event samples them, and returns the sums. bytes are those read of chains and of sums.
func faultInWays(t *testing.T, c *counter, n uint) (all []entry, chains, sums uint64) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, SamplePeriod: 1, Flags: perfdata.AttrDisabled | perfdata.AttrExcludeKernel}
	fd, err := perfevent.Open(&attr, perfevent.Where{Thread: syscall.Gettid(), CPU: perfevent.AnyCPU})
	check(t, err)
	defer fd.Close()
	check(t, fd.SetBPF(c.program(0)))
	check(t, fd.Enable())
	stacks.Walk(n, func() {
		page[0] = 1
		if e := syscall.Madvise(page, syscall.MADV_DONTNEED); e != nil {
			err = e
		}
	})
	check(t, fd.Disable())
	check(t, err)
	check(t, c.readChains())
	chains = c.bytes
	check(t, c.finish(func(e *entry) error {
		all = append(all, *e)
		return nil
	}))
	check(t, syscall.Munmap(page))
	return all, chains, c.bytes - chains
}

// TestBytes takes samples of which each has a stack of its own, and counts the bytes that leave the kernel.
func TestBytes(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	c, err := newCounter(settings{Keys: Keys{IP: true, Stack: true}, user: true, events: 1, filters: make([]asm.Instructions, 1)})
	check(t, err)
	defer c.Close()
	all, _, sums := faultInWays(t, c, ways)
	if len(all) < ways || len(all) > ways+ways/10 {
		t.Errorf("%d sums of %d stacks", len(all), ways)
	}
	times, last := 0, uint64(0)
	for _, e := range all {
		times += len(encode(nil, zigzag(int64(e.First>>timeShift-last))))
		last = e.First >> timeShift
	}
	// Flags, number of samples and callers take 3 bytes, and the innermost frame, which is nearly always the same, takes 1.
	if got := (float64(sums) - float64(times)) / float64(len(all)); got > 4.2 {
		t.Errorf("%.2f bytes per sum without its time, want at most 4.2", got)
	}
}
