package record

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// TestFilterNotRun samples reads of a byte: by this thread, and by a BPF program that it runs into. For the latter the kernel does not run the filter and
// drops the sample: they are lost. (On arm64 breakpoints at a user's address do not count what the kernel reads.)
func TestFilterNotRun(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	defer func() { check(t, syscall.Munmap(page)) }()
	page[0] = 1
	address := uintptr(unsafe.Pointer(&page[0]))
	reader, err := bpfprogram.ReadAtGetsid(address)
	check(t, err)
	defer func() { check(t, reader.Close()) }()
	const own, within = 30, 20
	for filter, kept := range map[string]int{"period == 1": own, "period != 1": 0} {
		thread, done, enabled, signals := make(chan int), make(chan error), make(chan struct{}), make(chan os.Signal, 1)
		go func() {
			runtime.LockOSThread() // up to its end
			thread <- syscall.Gettid()
			<-enabled
			for range own {
				bpfprogram.Read(&page[0])
			}
			var err error
			for range within {
				if _, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0); errno != 0 {
					err = errno
				}
			}
			signals <- syscall.SIGINT
			done <- err
		}()
		cfg := config(t, fmt.Sprintf("mem:%#x/1:rw", address))
		cfg.Events[0].Events[0].Filter = filter
		cfg.Target, cfg.Signals = target.Spec{TIDs: []int{<-thread}}, signals
		lost := 0
		cfg.Notify = func(s string) {
			t.Log(s)
			if strings.Contains(s, fmt.Sprintf(": %d samples are lost: the kernel does not run a filter", within)) {
				lost++
			}
		}
		cfg.Verbose = func(s string) {
			t.Log(s)
			if s == "events are enabled" {
				close(enabled)
			}
		}
		result, got := run(t, cfg)
		check(t, <-done)
		told := howMany(got, func(l *perfdata.LostSamples) bool { return !l.BPF && l.Samples == within })
		if int(result.Samples) != kept || int(result.Filtered) != own-kept || result.Missed != within || told != 1 || lost != 1 {
			t.Errorf("%s: %+v, want %d samples, %d filtered and %d missed; %d records of these, %d messages", filter, result, kept, own-kept, within, told, lost)
		}
	}
}
