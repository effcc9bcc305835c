// Package boot runs tests, or a command, on another kernel. The kernel runs in a guest: a QEMU machine with software emulation, which
// contains only the tests' binaries, bperf and a busybox.
package boot

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/built"
	"github.com/bperf/bperf/test/upstream/packaged"
)

// memoryMiB is the memory of a guest; the initramfs is part of it.
const memoryMiB = 1024

// Options describe a guest and what it runs.
type Options struct {
	Kernel  string        // ARCH/SUITE: the cloud kernel of a suite of Debian; ARCH/SUITE/lockdown: in lockdown=confidentiality
	CPUs    int           // 0 for the architecture's own number
	CPUTime time.Duration // the most that QEMU may take
	Perf    bool          // put upstream perf into the guest
	Newest  bool          // put the perf of Debian testing into the guest
	CPU     string        // model of the CPU, of those that QEMU has; empty for the architecture's own

	Packages []string // packages to test, or
	Run      string   // only tests that match
	Count    int      // runs of each test; 0 means 1
	Command  []string // a command to run instead of tests

	Files map[string]string // more files of the guest: files of this machine by their paths in the guest
	Ports map[int]int       // with a network: TCP ports of the guest by the ports of 127.0.0.1 here that lead to them
}

// Guest is a guest that is ready to boot.
type Guest struct {
	Release string // the kernel's release, for example 6.12.107+deb13-cloud-arm64

	tmp     string // directory with its initramfs
	machine machine.Machine
}

// parts are the parts of a guest apart from the programs that it runs.
type parts struct {
	arch   machine.Arch
	kernel *kernel.Kernel
	perf   string // upstream perf, or empty
	newest string // the perf of Debian testing, or empty
}

// Fetch makes sure that QEMU, the kernel and the perfs are on this machine. It installs, downloads and builds what is missing. It must
// not be called concurrently.
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
		if p.perf, err = built.Perf(p.arch.Name); err != nil {
			return p, err
		}
	}
	if o.Newest {
		p.newest, err = packaged.Get(packaged.Newest, p.arch.Name)
	}
	return p, err
}

// Prepare fetches and compiles everything that a guest needs. The caller must call Guest.Remove.
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
	maps.Copy(content.files, o.Files)
	if len(o.Ports) > 0 {
		if err := content.addNetwork(p.kernel); err != nil {
			return nil, err
		}
	}
	if o.Perf {
		content.addPerf(p.perf)
	}
	if o.Newest {
		if err := content.addNewest(p.newest); err != nil {
			return nil, err
		}
	}
	tmp, err := os.MkdirTemp("", "bperf-guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{Release: p.kernel.Release, tmp: tmp}
	g.machine = machine.Machine{Arch: p.arch, Kernel: p.kernel.Image, CPUs: o.CPUs, MemoryMiB: memoryMiB, CPU: o.CPU,
		Initramfs: filepath.Join(tmp, "initramfs"), Lockdown: isLockdown(o.Kernel), CPUTime: o.CPUTime,
		Ports: o.Ports}
	if g.machine.CPUs == 0 {
		g.machine.CPUs = p.arch.CPUs
	}
	if err := content.write(g.machine.Initramfs); err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// Run boots the guest and returns the exit status of its job. It copies the output of the guest's programs to output as they print it.
func (g *Guest) Run(ctx context.Context, output io.Writer) (int, error) {
	status, err := g.machine.Run(ctx, output)
	return status.Exit, err
}

// Remove removes the guest's files.
func (g *Guest) Remove() { os.RemoveAll(g.tmp) }

// lockdown is the suffix of the name of a kernel that boots in lockdown=confidentiality.
const lockdown = "/lockdown"

func isLockdown(kernel string) bool { return strings.HasSuffix(kernel, lockdown) }

func splitKernel(name string) (arch, suite string, err error) {
	arch, suite, ok := strings.Cut(name, "/")
	if !ok || suite == "" {
		return "", "", fmt.Errorf("a kernel is named ARCH/SUITE, as in arm64/trixie, not %q", name)
	}
	return arch, suite, nil
}
