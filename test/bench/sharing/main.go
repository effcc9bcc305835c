// Sharing measures the cost of `stat` sessions for the system that they count, in an arm64 guest whose clock counts instructions. It
// measures bperf with separate counters, bperf with the shared counters of --bpf-counters, and upstream perf with its shared counters. The
// exit status is 1 if a limit is missed.
//
//	go run ./test/bench/sharing
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
)

const (
	arch  = "arm64"
	suite = "trixie"

	memoryMiB = 2048             // for 64 sessions at a time
	cpuTime   = 15 * time.Minute // of QEMU
)

func main() {
	status, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sharing:", err)
		status = 125
	}
	os.Exit(status)
}

// run boots the guest and returns its exit status.
func run() (status int, err error) {
	a, err := machine.FindArch(arch)
	if err != nil {
		return 0, err
	}
	if err := apt.Need(map[string]string{a.QEMU: a.Package}); err != nil {
		return 0, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, err
	}
	k, err := kernel.Get(filepath.Join(cache, "bperf", "kernels"), arch, suite)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "bperf-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	image := filepath.Join(tmp, "initramfs")
	if err := pack(image, a, k); err != nil {
		return 0, err
	}

	m := machine.Machine{Arch: a, Kernel: k.Image, Initramfs: image, CPUs: a.CPUs, MemoryMiB: memoryMiB, CPUTime: cpuTime}
	fmt.Printf("Linux %s, %d CPUs, emulated: each instruction takes a cycle and a nanosecond\n\n", k.Release, m.CPUs)
	s, err := m.Run(context.Background(), os.Stdout)
	return s.Exit, err
}
