package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/guest/initramfs"
	"github.com/bperf/bperf/test/guest/job"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/built"
)

// memoryMiB is what a guest has; the initramfs is part of it.
const memoryMiB = 1024

// guest is a kernel that is ready to be booted.
type guest struct {
	name    string
	tmp     string // directory with its initramfs
	machine machine.Machine
	timeout time.Duration
}

// prepare fetches and builds what a guest needs.
func prepare(b *builder, o booking) (*guest, error) {
	archName, suite, err := splitKernel(o.kernel)
	if err != nil {
		return nil, err
	}
	arch, err := machine.FindArch(archName)
	if err != nil {
		return nil, err
	}
	if err := apt.Need(map[string]string{arch.QEMU: arch.Package}); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	k, err := kernel.Get(filepath.Join(cache, "bperf", "kernels"), arch.Name, suite)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "bperf-guest-")
	if err != nil {
		return nil, err
	}
	g := &guest{name: o.kernel, tmp: tmp, timeout: o.timeout}
	g.machine = machine.Machine{Arch: arch, Kernel: k.Image, CPUs: o.smp, MemoryMiB: memoryMiB}
	if g.machine.CPUs == 0 {
		g.machine.CPUs = arch.CPUs
	}
	if err := g.build(b, o, k); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

func (g *guest) build(b *builder, o booking, k *kernel.Kernel) error {
	fmt.Fprintf(os.Stderr, "guest %s: Linux %s\n", g.name, k.Release)
	content, err := b.build(o.options, g.machine.Arch)
	if err != nil {
		return err
	}
	content.files["/bin/busybox"] = k.Busybox
	content.job.Env["BPERF_GUEST"] = g.name
	if o.perf {
		if err := content.addPerf(g.machine.Arch.Name); err != nil {
			return err
		}
	}
	image := filepath.Join(g.tmp, "initramfs")
	if err := content.write(image); err != nil {
		return err
	}
	g.machine.Initramfs = image
	return nil
}

// run boots the guest and returns the exit status of what ran there.
func (g *guest) run(output io.Writer) (int, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), g.timeout, fmt.Errorf("not done after %s", g.timeout))
	defer cancel()
	start := time.Now()
	status, err := g.machine.Run(ctx, output)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "guest %s: done in %.1fs\n", g.name, time.Since(start).Seconds())
	return status.Exit, nil
}

func (g *guest) remove() { os.RemoveAll(g.tmp) }

// content is what is in a guest's initramfs.
type content struct {
	files map[string]string // path in the guest to file here
	job   job.Job
}

// addPerf puts upstream perf into the guest, and promises it to the tests.
func (c *content) addPerf(arch string) error {
	binary, err := built.Perf(arch)
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
