package sample

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/stacks"
)

// faultIn takes a page fault where walk calls leaf, samples the faults, and returns their sums. chains are the bytes of new chains.
func faultIn(t *testing.T, c *counter, walk func(leaf func())) (all []entry, chains uint64) {
	t.Helper()
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, SamplePeriod: 1, Flags: perfdata.AttrDisabled | perfdata.AttrExcludeKernel}
	fd, err := perfevent.Open(&attr, perfevent.Where{Thread: syscall.Gettid(), CPU: perfevent.AnyCPU})
	check(t, err)
	defer fd.Close()
	check(t, fd.SetBPF(c.program(0)))
	check(t, fd.Enable())
	walk(func() {
		page[0] = 1
		err = errors.Join(err, syscall.Madvise(page, syscall.MADV_DONTNEED))
	})
	check(t, fd.Disable())
	check(t, errors.Join(err, syscall.Munmap(page)))
	before := c.bytes
	check(t, c.readChains())
	chains = c.bytes - before
	check(t, c.swap(false, func(e *entry) error {
		all = append(all, *e)
		return nil
	}))
	return all, chains
}

// in returns the return addresses of a stack that are in a function.
func in[T uintptr | uint64](function string, stack []T) (own []T) {
	for _, address := range stack {
		if f := runtime.FuncForPC(uintptr(address) - 1); f != nil && strings.HasSuffix(f.Name(), function) {
			own = append(own, address)
		}
	}
	return own
}

// steps returns the return addresses in stacks.step that a stack has.
func steps[T uintptr | uint64](stack []T) string { return fmt.Sprintf("%x", in("stacks.step", stack)) }

// newStacksCounter returns a counter of the user stacks of one event.
func newStacksCounter(t *testing.T, entries uint32) *counter {
	t.Helper()
	require.Root(t)
	c, err := newCounter(settings{Keys: Keys{IP: true, Stack: true}, user: true, events: 1, entries: entries, filters: make([]asm.Instructions, 1)})
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// TestBytes takes samples of which each has a stack of its own, in both generations. It counts the bytes that leave the kernel, and checks that all
// stacks are read as they were.
func TestBytes(t *testing.T) {
	require.AnyArch(t)
	want := make(map[string]bool)
	stacks.Walk(ways, func() {
		var pcs [64]uintptr
		want[steps(pcs[:runtime.Callers(1, pcs[:])])] = true
	})
	if len(want) != ways {
		t.Fatalf("%d different stacks, not %d", len(want), ways)
	}
	for name, tt := range map[string]struct {
		entries uint32
		again   bool // chains are written again by the next generation
	}{
		"one table of chains":         {0, false},
		"each generation has its own": {8 << 10, true}, // which is more than half full
	} {
		t.Run(name, func(t *testing.T) {
			c := newStacksCounter(t, tt.entries)
			for round := range 3 {
				before, last := c.bytes, c.last.first
				all, chains := faultIn(t, c, func(leaf func()) { stacks.Walk(ways, leaf) })
				got := make(map[string]bool)
				times := uint64(0)
				for _, e := range all {
					got[steps(e.callers.user)] = true
					times += uint64(len(encode(nil, zigzag(int64(e.First>>timeShift-last)))))
					last = e.First >> timeShift
				}
				missing := 0
				for s := range want {
					if !got[s] {
						missing++
					}
				}
				if missing > 0 || c.noStack > 0 || len(all) > ways+ways/10 {
					t.Errorf("round %d: %d sums, without %d of %d stacks, %d have none", round, len(all), missing, ways, c.noStack)
				}
				// Flags, number of samples and callers take 3 bytes, and the innermost frame, which is nearly always the same, takes 1.
				if got := float64(c.bytes-before-chains-times) / float64(len(all)); got > 4.2 {
					t.Errorf("round %d: %.2f bytes per sum without its time, want at most 4.2", round, got)
				}
				// The ring buffer's header takes 8 bytes, the IDs of a chain and its parts 8 or 16.
				if got := float64(chains) / ways; got > 28 || !tt.again && round > 0 && got > 1 {
					t.Errorf("round %d: %.1f bytes per chain", round, got)
				}
			}
		})
	}
}

//go:noinline
func descend(depth int, leaf func()) {
	leaf()
	if depth > 1 {
		descend(depth-1, leaf)
	}
}

// TestDepths samples stacks that each have a frame more than the one before, until the deepest have more than are taken.
func TestDepths(t *testing.T) {
	require.AnyArch(t)
	const depths, taken = 150, 127
	all, _ := faultIn(t, newStacksCounter(t, 0), func(leaf func()) { descend(depths, leaf) })
	found := make(map[int]bool)
	for _, e := range all {
		own := in("sample.descend", e.callers.user)
		if len(own) == 0 { // a fault elsewhere
			continue
		}
		// The innermost call of leaf, and the calls of descend from itself around it.
		for i := range own {
			if same := i < 2 || own[i] == own[i-1]; !same {
				t.Errorf("the frame %d of %x", i, own)
			}
		}
		if found[len(own)] = true; 1+len(e.callers.user) > taken {
			t.Errorf("%d callers", len(e.callers.user))
		}
	}
	for depth := 1; depth < taken-8; depth++ {
		if !found[depth] {
			t.Errorf("no stack with %d calls", depth)
		}
	}
}
