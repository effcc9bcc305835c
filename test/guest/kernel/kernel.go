// Package kernel gets Debian's kernels for guests.
package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

// Kernel is a kernel ready to boot, with a busybox of its suite and architecture, as files.
type Kernel struct {
	Release string // as uname -r gives it
	Image   string // arm64: Image; amd64: the ELF kernel, without its decompressor
	Busybox string // static
}

// Get returns the newest cloud kernel of a Debian suite, out of the cache in dir if it is there. To get a newer one, remove
// its directory from the cache.
func Get(dir, arch, suite string) (*Kernel, error) {
	dir = filepath.Join(dir, arch+"-"+suite)
	if k, err := read(dir); err == nil {
		return k, nil
	}
	if err := fetch(dir, arch, suite); err != nil {
		return nil, fmt.Errorf("get the kernel of Debian %s for %s: %w", suite, arch, err)
	}
	return read(dir)
}

func read(dir string) (*Kernel, error) {
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, err
	}
	return &Kernel{
		Release: string(release),
		Image:   filepath.Join(dir, "kernel"),
		Busybox: filepath.Join(dir, "busybox"),
	}, nil
}

// fetch fills dir.
func fetch(dir, arch, suite string) error {
	programs := map[string]string{"dpkg-deb": "dpkg"}
	if arch == "amd64" {
		programs["lz4"], programs["zstd"] = "lz4", "zstd"
	}
	if err := apt.Need(programs); err != nil {
		return err
	}
	return whole.Make(dir, func(tmp string) (string, error) {
		if err := download(tmp, arch, suite); err != nil {
			return "", err
		}
		if arch == "amd64" {
			// Decompressing itself takes the kernel many seconds under emulation.
			return tmp, unpackBzImage(filepath.Join(tmp, "kernel"))
		}
		return tmp, nil
	})
}

var (
	image   = regexp.MustCompile(`^\./boot/vmlinuz-|/usr/lib/modules/[^/]+/vmlinuz$`)
	busybox = regexp.MustCompile(`/bin/busybox$`)
)

func download(dir, arch, suite string) error {
	archive, err := apt.OpenArchive(suite, arch)
	if err != nil {
		return err
	}
	defer archive.Close()

	newest, err := dependency(archive, "linux-image-cloud-"+arch, "linux-image-")
	if err != nil {
		return err
	}
	// From 7.x on the image package is empty and depends on one that has the kernel.
	pkg, err := dependency(archive, newest, "linux-binary-")
	if err != nil {
		pkg = newest
	}
	if err := archive.Extract(pkg, image, filepath.Join(dir, "kernel")); err != nil {
		return err
	}
	if err := archive.Extract("busybox-static", busybox, filepath.Join(dir, "busybox")); err != nil {
		return err
	}
	release := strings.TrimPrefix(newest, "linux-image-")
	return os.WriteFile(filepath.Join(dir, "release"), []byte(release), 0o644)
}

func dependency(a *apt.Archive, pkg, prefix string) (string, error) {
	names, err := a.Depends(pkg)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s depends on no %s*", pkg, prefix)
}
