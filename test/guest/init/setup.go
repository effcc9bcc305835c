package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts are the file systems to mount, in order. cgroup v2 is mounted without v1, at the place where every distribution has it.
var mounts = []struct{ kind, dir, options string }{
	{"devtmpfs", "/dev", ""},
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"devpts", "/dev/pts", "ptmxmode=0666"},
	{"tmpfs", "/dev/shm", ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tmpfs", "/run", ""},
	{"cgroup2", "/sys/fs/cgroup", ""},
	{"bpf", "/sys/fs/bpf", ""},
	{"tracefs", "/sys/kernel/tracing", ""},
	{"debugfs", "/sys/kernel/debug", ""},
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.options); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.dir, err)
		}
	}
	return nil
}

// prepare does the rest of the setup, apart from mounting, that every distribution does at boot.
func prepare() error {
	for name, target := range map[string]string{
		"/dev/fd":     "/proc/self/fd",
		"/dev/stdin":  "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1",
		"/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/passwd", []byte("root:x:0:0::/tmp:/bin/sh\n"), 0o644); err != nil {
		return err
	}
	if err := exec.Command("/bin/busybox", "--install", "-s", "/bin").Run(); err != nil {
		return fmt.Errorf("busybox --install: %w", err)
	}
	// The kernel lowers kernel.perf_event_max_sample_rate if samples take more than a quarter of the time of a CPU. In the emulator they do, as
	// a nanosecond is an instruction. Then the kernel would throttle the events of later tests.
	if err := os.WriteFile("/proc/sys/kernel/perf_cpu_time_max_percent", []byte("0"), 0); err != nil {
		return err
	}
	if err := enableControllers("/sys/fs/cgroup"); err != nil {
		return err
	}
	return interfaceUp("lo", nil)
}

// enableControllers enables every controller for the groups below the root. The kernel enables perf_event by itself, but not before a first
// write. Without it, cgroup events fail with ENOENT.
func enableControllers(root string) error {
	controllers, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil {
		return err
	}
	enable := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(root+"/cgroup.subtree_control", []byte(enable), 0o644)
}
