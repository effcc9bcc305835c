package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/guest/initramfs"
	"github.com/bperf/bperf/test/guest/job"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/perf"
)

// memoryMiB is what a guest has; the initramfs is part of it.
const memoryMiB = 1024

// runGuest boots one kernel and returns the exit status of what ran there.
func runGuest(o *options, name string) (int, error) {
	archName, suite, err := splitKernel(name)
	if err != nil {
		return 0, err
	}
	arch, err := machine.FindArch(archName)
	if err != nil {
		return 0, err
	}
	if err := apt.Need(map[string]string{arch.QEMU: arch.Package}); err != nil {
		return 0, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, err
	}
	k, err := kernel.Get(filepath.Join(cache, "bperf", "kernels"), arch.Name, suite)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "bperf-guest-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)

	fmt.Fprintf(os.Stderr, "guest %s: Linux %s\n", name, k.Release)
	content, err := build(o, arch, filepath.Join(tmp, "build"))
	if err != nil {
		return 0, err
	}
	content.files["/bin/busybox"] = k.Busybox
	content.job.Env["BPERF_GUEST"] = name
	if o.perf {
		if err := content.addPerf(arch.Name); err != nil {
			return 0, err
		}
	}
	image := filepath.Join(tmp, "initramfs")
	if err := content.write(image); err != nil {
		return 0, err
	}
	m := machine.Machine{Arch: arch, Kernel: k.Image, Initramfs: image, CPUs: o.smp, MemoryMiB: memoryMiB}
	if m.CPUs == 0 {
		m.CPUs = arch.CPUs
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout,
		fmt.Errorf("not done after %s", o.timeout))
	defer cancel()
	start := time.Now()
	status, err := m.Run(ctx, os.Stdout)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "guest %s: done in %.1fs\n", name, time.Since(start).Seconds())
	return status.Exit, nil
}

// content is what is in a guest's initramfs.
type content struct {
	files map[string]string // path in the guest to file here
	job   job.Job
}

// addPerf puts upstream perf into the guest, and promises it to the tests.
func (c *content) addPerf(arch string) error {
	binary, err := perf.Get(arch)
	if err != nil {
		return err
	}
	c.files["/bin/perf"] = binary
	c.job.Env["BPERF_REQUIRE"] += ",upstream-perf"
	return nil
}

func (c *content) write(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriter(f)
	if err := c.archive(initramfs.NewWriter(buf)); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (c *content) archive(w *initramfs.Writer) error {
	for path, name := range c.files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w.File(path, uint32(info.Mode().Perm()), data)
	}
	for _, command := range c.job.Commands {
		w.Dir(command.Dir)
	}
	b, err := json.Marshal(c.job)
	if err != nil {
		return err
	}
	w.File(job.File, 0o644, b)
	return w.Close()
}
