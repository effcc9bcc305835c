// Package boot runs tests, or a command, on another kernel: a guest in QEMU, with software emulation, with nothing in the machine besides
// the tests' binaries, bperf and a busybox.
package boot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/built"
)

// memoryMiB is the memory of a guest; the initramfs is part of it.
const memoryMiB = 1024

// Options describe a guest and what it runs.
type Options struct {
	Kernel  string        // ARCH/SUITE: the cloud kernel of a suite of Debian; ARCH/SUITE/lockdown: in lockdown=confidentiality
	CPUs    int           // 0 for the architecture's own number
	Timeout time.Duration // for the whole guest, by the clock of this machine
	Perf    bool          // put upstream perf into the guest

	Packages []string // to test, of them the tests that match Run, each Count times (0 is once); or
	Run      string
	Count    int
	Command  []string // to run
}

// Guest is a kernel that is ready to be booted.
type Guest struct {
	Release string // of the kernel: 6.12.107+deb13-cloud-arm64

	tmp     string // directory with its initramfs
	machine machine.Machine
	timeout time.Duration
}

// parts are what a guest is made of besides what it runs.
type parts struct {
	arch   machine.Arch
	kernel *kernel.Kernel
	perf   string // upstream's, or empty
}

// Fetch makes sure that QEMU, the kernel and upstream perf are on this machine. It installs, downloads and builds what is missing; one call
// at a time may do that.
func Fetch(o *Options) error {
	_, err := fetch(o)
	return err
}

func fetch(o *Options) (p parts, err error) {
	archName, suite, err := splitKernel(strings.TrimSuffix(o.Kernel, lockdown))
	if err != nil {
		return p, err
	}
	if p.arch, err = machine.FindArch(archName); err != nil {
		return p, err
	}
	if err := apt.Need(map[string]string{p.arch.QEMU: p.arch.Package}); err != nil {
		return p, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	if p.kernel, err = kernel.Get(filepath.Join(cache, "bperf", "kernels"), p.arch.Name, suite); err != nil {
		return p, err
	}
	if o.Perf {
		p.perf, err = built.Perf(p.arch.Name)
	}
	return p, err
}

// Prepare fetches and compiles what a guest needs. The caller removes the guest.
func Prepare(b *binaries.Builder, o *Options) (*Guest, error) {
	p, err := fetch(o)
	if err != nil {
		return nil, err
	}
	content, err := build(b, o, p.arch)
	if err != nil {
		return nil, err
	}
	content.files["/bin/busybox"] = p.kernel.Busybox
	if o.Perf {
		content.addPerf(p.perf)
	}
	tmp, err := os.MkdirTemp("", "bperf-guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{Release: p.kernel.Release, tmp: tmp, timeout: o.Timeout}
	g.machine = machine.Machine{Arch: p.arch, Kernel: p.kernel.Image, CPUs: o.CPUs, MemoryMiB: memoryMiB,
		Initramfs: filepath.Join(tmp, "initramfs"), Lockdown: isLockdown(o.Kernel)}
	if g.machine.CPUs == 0 {
		g.machine.CPUs = p.arch.CPUs
	}
	if err := content.write(g.machine.Initramfs); err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// Run boots the guest, copies what runs there to output while it prints it, and returns its exit status.
func (g *Guest) Run(ctx context.Context, output io.Writer) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.timeout, fmt.Errorf("not done after %s", g.timeout))
	defer cancel()
	status, err := g.machine.Run(ctx, output)
	return status.Exit, err
}

// Remove removes the guest's files.
func (g *Guest) Remove() { os.RemoveAll(g.tmp) }

// lockdown ends the name of a kernel that is booted in lockdown=confidentiality.
const lockdown = "/lockdown"

func isLockdown(kernel string) bool { return strings.HasSuffix(kernel, lockdown) }

func splitKernel(name string) (arch, suite string, err error) {
	arch, suite, ok := strings.Cut(name, "/")
	if !ok || suite == "" {
		return "", "", fmt.Errorf("a kernel is named ARCH/SUITE, as in arm64/trixie, not %q", name)
	}
	return arch, suite, nil
}
