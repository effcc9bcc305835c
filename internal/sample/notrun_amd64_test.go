package sample

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// TestNotRun samples reads of a byte: by a thread, and by a BPF program that it runs into. For the latter the kernel does not run the program that counts:
// they are lost. (On arm64 breakpoints at a user's address do not count what the kernel reads.)
func TestNotRun(t *testing.T) {
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
	thread, enabled := make(chan int), make(chan struct{})
	done := make(chan error)
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
		done <- err
	}()
	cfg := config(t, fmt.Sprintf("mem:%#x/1:rw", address))
	cfg.Record.Target = target.Spec{TIDs: []int{<-thread}}
	r := whileEnabled(t, cfg, func() error {
		close(enabled)
		return <-done
	})
	if n := r.Totals; n.Samples != own || n.NotRun != within || n.Missed != within || r.Profile.Losses.Samples != within ||
		!strings.Contains(n.String(), fmt.Sprintf("%d samples, %d lost", own, within)) {
		t.Errorf("%+v, want %d samples and %d lost: %s", n, own, within, n)
	}
}
