// Package require checks whether the machine meets the requirements of a test. If possible, it sets up what is missing. Otherwise it skips
// the test with the missing requirement, or fails the test if the machine must meet it: with CI set, a machine must have root; a guest must
// have what BPERF_REQUIRE lists ("root,pmu").
package require

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/upstream/packaged"
)

// must reports whether BPERF_REQUIRE lists the thing.
func must(thing string) bool {
	return slices.Contains(strings.Split(os.Getenv("BPERF_REQUIRE"), ","), thing)
}

func missing(t testing.TB, fatal bool, format string, args ...any) {
	t.Helper()
	if fatal {
		t.Fatalf("this machine should have it, but: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Tools is for tests that use the named programs, or the files at these paths. In CI this machine must have them (needed in test/plan.go); guests do not have them.
func Tools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		if filepath.IsAbs(name) {
			_, err = os.Stat(name)
		}
		if err != nil {
			missing(t, os.Getenv("CI") != "" && !IsGuest(), "needs %s", name)
		}
	}
}

// Root is for tests that need root, for example to count everything.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, os.Getenv("CI") != "" || must("root"), "needs root")
	}
}

// FUSE is for tests that serve a FUSE file system. The kernels of guests do not support FUSE.
func FUSE(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		missing(t, os.Getenv("CI") != "" && !IsGuest(), "needs FUSE: %v", err)
	}
}

// IsGuest reports whether this is a guest of test/guest.
func IsGuest() bool { return os.Getenv("BPERF_GUEST") != "" }

// Guest is for tests that would disturb other users of the same machine.
func Guest(t testing.TB) {
	t.Helper()
	if !IsGuest() {
		t.Skip("needs a machine of its own: go run ./test/guest PACKAGE")
	}
}

// SwitchCPU is for tests that take a CPU of their guest offline and back online. turn writes "0" or "1" to the CPU's file online
// (https://docs.kernel.org/core-api/cpu_hotplug.html). Any goroutine may call it. The CPU is back online when the test ends.
func SwitchCPU(t testing.TB, cpu int) (turn func(online string)) {
	t.Helper()
	Guest(t)
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	if _, err := os.Stat(file); err != nil {
		t.Skip("needs a second CPU that can be taken offline")
	}
	turn = func(online string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(online), 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { turn("1") })
	return turn
}

// HostRunsIt is the message of a test that guests skip because its result does not depend on the kernel.
const HostRunsIt = "asks the kernel nothing: the host runs it"

// NoKernel is for tests whose result does not depend on the kernel. They run only on the host.
func NoKernel(t testing.TB) {
	t.Helper()
	if IsGuest() {
		t.Skip(HostRunsIt)
	}
}

// OtherGuestsRunIt is the message of a test that arm64 guests skip because its result does not depend on the architecture.
const OtherGuestsRunIt = "the architecture does not matter: the amd64 guests run it, arm64 with BPERF_LONG=1"

// AnyArch is for tests whose result depends on the kernel's version, but not on the architecture. They run on the host, in amd64 guests, and
// with the long versions of tests in arm64 guests.
func AnyArch(t testing.TB) {
	t.Helper()
	if IsGuest() && runtime.GOARCH == "arm64" && !Long() {
		t.Skip(OtherGuestsRunIt)
	}
}

// Long reports whether tests should run their long versions: `make test-long`.
func Long() bool { return os.Getenv("BPERF_LONG") != "" }

// PMU is for tests that need hardware counters.
func PMU(t testing.TB) {
	t.Helper()
	Root(t)
	if err := countCycles(); err != nil {
		missing(t, must("pmu"), "needs a PMU: open a counter of cycles: %v", err)
	}
}

// NoPMU is for tests that expect what happens on a machine without hardware counters.
func NoPMU(t testing.TB) {
	t.Helper()
	Root(t)
	if countCycles() == nil {
		t.Skip("needs a machine without a PMU")
	}
}

// countCycles opens and closes a counter of cycles.
func countCycles() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Breakpoints is for tests that count memory accesses with hardware breakpoints. On some virtual machines a breakpoint opens but counts
// nothing.
func Breakpoints(t testing.TB) {
	t.Helper()
	Root(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const readsAndWrites = 3 // HW_BREAKPOINT_RW of include/uapi/linux/hw_breakpoint.h
	target := new(atomic.Uint32)
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_BREAKPOINT, Bp_type: readsAndWrites, Ext1: uint64(uintptr(unsafe.Pointer(target))), Ext2: 1}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		missing(t, IsGuest(), "needs a hardware breakpoint: %v", err)
	}
	defer unix.Close(fd)
	target.Add(1)
	count := make([]byte, 8)
	if _, err := unix.Read(fd, count); err != nil || binary.NativeEndian.Uint64(count) == 0 {
		missing(t, IsGuest(), "needs hardware breakpoints: this machine's count no access (%v)", err)
	}
}

// Lockdown is for tests of kernels in lockdown=confidentiality.
func Lockdown(t testing.TB) {
	t.Helper()
	if !must("lockdown") {
		t.Skip("needs a kernel in lockdown=confidentiality: go run ./test/guest -kernel arm64/trixie/lockdown PACKAGE")
	}
}

// ExactPMU is for tests that need the PMU of the arm64 guests. It has one counter for cycles and six for any event, including instructions.
// All of them count exactly while only one CPU is online.
func ExactPMU(t testing.TB) {
	t.Helper()
	if !must("exact-pmu") {
		t.Skip("needs the PMU of an arm64 guest: go run ./test/guest PACKAGE")
	}
	PMU(t)
}

// Perf is for tests that compare with perf. It returns the path of the perf of Debian 12 (6.1) or, in a guest, of the guest's perf.
func Perf(t testing.TB) string {
	t.Helper()
	perf, err := FindPerf()
	if err != nil {
		missing(t, os.Getenv("CI") != "" && !IsGuest(), "needs perf: %v", err)
	}
	return perf
}

// FindPerf is like Perf but returns an error, for tests that also work without perf.
func FindPerf() (string, error) {
	if IsGuest() {
		return exec.LookPath("perf")
	}
	return findPackaged(packaged.Oldest)
}

// UpstreamPerf is for tests that need upstream perf, which has `stat --bpf-counters`. It returns the path of perf.
func UpstreamPerf(t testing.TB) string {
	t.Helper()
	if !must("upstream-perf") {
		t.Skip("needs upstream perf: go run ./test/guest -perf PACKAGE")
	}
	perf, err := exec.LookPath("perf")
	if err != nil {
		missing(t, true, "needs upstream perf: %v", err)
	}
	return perf
}

// NewestPerf is for tests that compare with the perf of Debian testing. It returns the path of perf.
func NewestPerf(t testing.TB) string {
	t.Helper()
	if IsGuest() {
		if !must("newest-perf") {
			t.Skip("needs the perf of Debian testing: go run ./test/guest -newest-perf PACKAGE")
		}
		return filepath.Join(packaged.InGuest, "perf")
	}
	perf, err := findPackaged(packaged.Newest)
	if err != nil {
		missing(t, os.Getenv("CI") != "", "needs the newest perf: %v", err)
	}
	return perf
}

// findPackaged returns the path of a suite's perf, which `go run ./test` must have fetched.
func findPackaged(suite string) (string, error) {
	path, err := packaged.Path(suite, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: fetch it: go run ./test/upstream %s", err, suite)
	}
	return path, nil
}

// Promtool is for tests that check metrics and rules with Prometheus' own tool. It returns the path of promtool, which `go run ./test`
// fetches.
func Promtool(t testing.TB) string {
	t.Helper()
	path, err := engines.Path(engines.Promtool)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, os.Getenv("CI") != "" && !IsGuest(), "needs promtool: %v: fetch it: go run ./test/upstream promtool", err)
	}
	return path
}

// Browser is for tests of HTML pages. It returns the path of Chromium. In CI it installs Chromium if it is missing.
func Browser(t testing.TB) string {
	t.Helper()
	return installed(t, "chromium", "a browser")
}

// installed returns the path of a program from the package of the same name, which it installs in CI.
func installed(t testing.TB, program, what string) string {
	t.Helper()
	if os.Getenv("CI") != "" && !IsGuest() {
		if err := apt.Need(map[string]string{program: program}); err != nil {
			t.Skipf("needs %s: %v", what, err)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs %s: apt-get install %s", what, program)
	}
	return path
}

// Debuginfod is for tests beside the server of elfutils. It returns the path of debuginfod. In CI it installs debuginfod if it is missing.
func Debuginfod(t testing.TB) string {
	t.Helper()
	return installed(t, "debuginfod", "a debuginfod server")
}

// CPUModel returns the model of the guest's CPU as QEMU names it, or an empty string if the guest has QEMU's own CPU, or if this is no guest.
func CPUModel() string { return os.Getenv("BPERF_CPU") }

// OneCPU takes all CPUs except the first offline for the rest of the test. Only guests run such tests.
func OneCPU(t testing.TB) {
	t.Helper()
	Guest(t)
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu[1-9]*/online")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(f, []byte("1"), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// CgroupV1 mounts the cgroup v1 hierarchy of perf events and returns its root. For the rest of the test perf events belong to v1 instead of
// v2. Only guests run such tests.
func CgroupV1(t testing.TB) (root string) {
	t.Helper()
	Guest(t)
	root = t.TempDir()
	if err := unix.Mount("none", root, "cgroup", 0, "perf_event"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
			if err := unix.Unmount(root, 0); err != nil {
				t.Fatal(err)
			}
			if endsSoon(t) {
				return
			}
			if err := unix.Mount("none", root, "cgroup", 0, "perf_event"); err != nil {
				t.Fatal(err)
			}
		}
		t.Fatal("the cgroup v1 hierarchy of perf events is still there")
	})
	return root
}

// endsSoon waits up to a second for the end of the unmounted v1 hierarchy of perf events, and reports whether it has ended. The hierarchy
// stays while a removed cgroup in it still has tasks or counters that are ending. Then it must be mounted and unmounted once more.
func endsSoon(t testing.TB) bool {
	t.Helper()
	for range 100 {
		v1, err := target.PerfCgroupsAreV1()
		if err != nil {
			t.Fatal(err)
		}
		if !v1 {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// Tracefs mounts tracefs if it is not mounted, and returns its directory.
func Tracefs(t testing.TB) string {
	t.Helper()
	Root(t)
	if must("lockdown") {
		t.Skip("needs tracepoints: with lockdown=confidentiality, tracefs is empty")
	}
	const dir = "/sys/kernel/tracing"
	if _, err := os.Stat(dir + "/events"); err == nil {
		return dir
	}
	if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
		t.Fatalf("mount tracefs: %v", err)
	}
	return dir
}

// BPFFS mounts bpffs on /sys/fs/bpf if it is not mounted. Sessions share counters through it.
func BPFFS(t testing.TB) {
	t.Helper()
	Root(t)
	const dir = "/sys/fs/bpf"
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.BPF_FS_MAGIC {
		return
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount bpffs: %v", err)
	}
}

// ManyPrograms returns the number of BPF programs for tests that load and unload many programs, one after another. Such tests use a Pace.
func ManyPrograms() int {
	if IsGuest() && Long() {
		return 1000
	}
	return 200
}

// mostFreed is the largest number of BPF programs that may wait to be freed at once. It is far below 256, which stop Linux 6.18
// (docs/kernel-notes.md).
const mostFreed = 32

// Pace slows down a test that loads and unloads many BPF programs.
type Pace struct{ closed int }

// Closed must be called after each program is closed. After every 32 programs it waits for an RCU grace period, after which the kernel
// frees programs.
func (p *Pace) Closed(t testing.TB) {
	t.Helper()
	if p.closed++; p.closed%mostFreed != 0 {
		return
	}
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		t.Errorf("wait for a grace period: membarrier: %v", errno)
	}
}
