package perfevent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openSelf opens an event of the calling thread, and locks the test's goroutine to the thread. An event without a leader is disabled.
func openSelf(t testing.TB, attr perfdata.Attr, leader *Event) *Event {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	attr.ReadFormat |= ReadFormatTimes
	if leader == nil {
		attr.Flags |= perfdata.AttrDisabled
	}
	e, err := Open(&attr, Where{CPU: AnyCPU, Leader: leader})
	if err != nil {
		t.Fatalf("open type %d, config %#x: %v", attr.Type, attr.Config, err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func software(config uint64) perfdata.Attr {
	return perfdata.Attr{Type: perfdata.TypeSoftware, Config: config}
}

func getppid(t testing.TB) perfdata.Attr {
	t.Helper()
	text, err := os.ReadFile(require.Tracefs(t) + "/events/syscalls/sys_enter_getppid/id")
	check(t, err)
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	check(t, err)
	return perfdata.Attr{Type: perfdata.TypeTracepoint, Config: id}
}

// during enables e while f runs and returns its reading.
func during(t testing.TB, e *Event, f func()) Reading {
	t.Helper()
	check(t, e.Enable())
	f()
	check(t, e.Disable())
	r, err := e.Read()
	check(t, err)
	return r
}

func callGetppid(n int) {
	for range n {
		syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	}
}

// bracket compares an event with a field of rusage that counts the same, during f, which causes at least atLeast events. The inner
// pair of rusage readings is a lower bound of the event's count, the outer pair an upper bound.
func bracket(t *testing.T, e *Event, field func(*syscall.Rusage) int64, atLeast int64, f func()) {
	t.Helper()
	rusage := func() int64 {
		var usage syscall.Rusage
		check(t, syscall.Getrusage(unix.RUSAGE_THREAD, &usage))
		return field(&usage)
	}
	start, err := e.Read()
	check(t, err)
	var inner int64
	outer := rusage()
	end := during(t, e, func() {
		inner = rusage()
		f()
		inner = rusage() - inner
	})
	outer = rusage() - outer
	got := end.Sub(start)
	if n := int64(got.Value); n < inner || n > outer || inner < atLeast {
		t.Errorf("counted %d, want from %d to %d as in rusage, and at least %d", n, inner, outer, atLeast)
	}
	if got.Running != got.Enabled || got.Running == 0 {
		t.Errorf("%+v, want it to run all the time", got)
	}
}

func TestPageFaultsAreExact(t *testing.T) {
	require.Root(t)
	e := openSelf(t, software(perfdata.SoftwarePageFaults), nil)
	const pages = 500
	size := pages * os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	check(t, err)
	defer unix.Munmap(memory)
	check(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	faults := func(u *syscall.Rusage) int64 { return u.Minflt + u.Majflt }
	for range 2 { // the second time, only the pages are new
		bracket(t, e, faults, pages, func() {
			for i := 0; i < size; i += os.Getpagesize() {
				memory[i] = 1
			}
		})
		check(t, unix.Madvise(memory, unix.MADV_DONTNEED))
	}
}

func TestContextSwitchesAreExact(t *testing.T) {
	require.Root(t)
	e := openSelf(t, software(perfdata.SoftwareContextSwitches), nil)
	bracket(t, e, func(u *syscall.Rusage) int64 { return u.Nvcsw + u.Nivcsw }, 25, func() {
		for range 50 { // a nap causes no switch if the timer fires before the thread sleeps
			nap := unix.Timespec{Nsec: 200_000}
			unix.Nanosleep(&nap, nil)
		}
	})
}

func TestTracepoint(t *testing.T) {
	require.Root(t)
	e := openSelf(t, getppid(t), nil)
	if got := during(t, e, func() { callGetppid(1234) }); got.Value != 1234 {
		t.Errorf("%+v, want 1234 calls", got)
	}
	callGetppid(10)
	if got, err := e.Read(); err != nil || got.Value != 1234 {
		t.Errorf("%+v (%v) after disabling, want 1234 calls still", got, err)
	}
}

func TestFilter(t *testing.T) {
	require.Root(t)
	for _, other := range []int{0, 1} {
		e := openSelf(t, getppid(t), nil)
		check(t, e.SetFilter(fmt.Sprintf("common_pid == %d", unix.Gettid()+other)))
		want := uint64(10 * (1 - other))
		if got := during(t, e, func() { callGetppid(10) }); got.Value != want {
			t.Errorf("calls of thread %+d: %d, want %d", other, got.Value, want)
		}
	}
	e := openSelf(t, getppid(t), nil)
	if err := e.SetFilter("nonsense == 1"); err != syscall.EINVAL {
		t.Errorf("filter with a field that is not there: %v, want EINVAL", err)
	}
	if err := e.SetFilter("a\x00b"); err != syscall.EINVAL {
		t.Errorf("filter with a NUL: %v, want EINVAL", err)
	}
}

func TestGroup(t *testing.T) {
	require.Root(t)
	grouped := func(a perfdata.Attr) perfdata.Attr {
		a.ReadFormat = perfdata.ReadGroup
		return a
	}
	for _, members := range []int{1, 3, 40} {
		leader := openSelf(t, grouped(software(perfdata.SoftwareTaskClock)), nil)
		for range members {
			openSelf(t, grouped(getppid(t)), leader)
		}
		check(t, leader.Enable())
		callGetppid(77)
		check(t, leader.Disable())
		readings := make([]Reading, 1+members)
		check(t, leader.ReadGroup(readings))
		for i, r := range readings {
			if i > 0 && r.Value != 77 || r.Enabled != readings[0].Enabled || r.Running != r.Enabled || r.Running == 0 {
				t.Errorf("event %d of %d: %+v, want 77 and the leader's times", i, 1+members, r)
			}
		}
		err := leader.ReadGroup(readings[:members])
		if err == nil {
			t.Errorf("a group of %d is read into %d readings", 1+members, members)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	require.Root(t)
	file, err := os.Open("/dev/null")
	check(t, err)
	defer file.Close()
	tests := []struct {
		name string
		attr perfdata.Attr
		at   Where
		want syscall.Errno
	}{
		{"no such event", software(999), Where{CPU: AnyCPU}, syscall.ENOENT},
		{"no such PMU", perfdata.Attr{Type: 0xffff}, Where{CPU: AnyCPU}, syscall.ENOENT},
		{"no such thread", software(perfdata.SoftwareDummy), Where{Thread: 1 << 22, CPU: AnyCPU}, syscall.ESRCH},
		{"neither thread nor CPU", software(perfdata.SoftwareDummy), Where{Thread: AnyThread, CPU: AnyCPU}, syscall.EINVAL},
		{"no such flag", perfdata.Attr{Type: perfdata.TypeSoftware, Flags: 1 << 63}, Where{CPU: AnyCPU}, syscall.EINVAL},
		{"no cgroup", software(perfdata.SoftwareDummy), Where{UseCgroup: true, Cgroup: int(file.Fd())}, syscall.EBADF},
	}
	for _, tt := range tests {
		if e, err := Open(&tt.attr, tt.at); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			if err == nil {
				e.Close()
			}
		}
	}
}

func TestClosedEvent(t *testing.T) {
	require.Root(t)
	attr := software(perfdata.SoftwareDummy)
	attr.ReadFormat = ReadFormatTimes
	e, err := Open(&attr, Where{CPU: AnyCPU})
	check(t, err)
	check(t, e.Close())
	closed := &Event{fd: -1}
	if _, err := closed.Read(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("read: %v, want EBADF", err)
	}
	if err := closed.Enable(); err != syscall.EBADF {
		t.Errorf("enable: %v, want EBADF", err)
	}
}

func TestShortRead(t *testing.T) {
	require.Root(t)
	attr := software(perfdata.SoftwareDummy) // without times
	e, err := Open(&attr, Where{CPU: AnyCPU})
	check(t, err)
	defer e.Close()
	if _, err := e.Read(); err == nil || err.Error() != "unexpected EOF" {
		t.Errorf("read of an event without times: %v, want unexpected EOF", err)
	}
}

func TestReading(t *testing.T) {
	r := Reading{Value: 10, Enabled: 20, Running: 30}
	r.Add(Reading{Value: 1, Enabled: 2, Running: 3})
	if want := (Reading{Value: 11, Enabled: 22, Running: 33}); r != want {
		t.Errorf("sum %+v, want %+v", r, want)
	}
	if got, want := r.Sub(Reading{Value: 1, Enabled: 2, Running: 3}), (Reading{Value: 10, Enabled: 20, Running: 30}); got != want {
		t.Errorf("difference %+v, want %+v", got, want)
	}
}
