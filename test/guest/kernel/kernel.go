// Package kernel fetches Debian's kernels for guests.
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

// Kernel has the files of a kernel that is ready to boot, and of a busybox of its suite and architecture.
type Kernel struct {
	Release string // as printed by uname -r
	Image   string // file; arm64: Image; amd64: the ELF kernel, without its decompressor
	Busybox string // file; linked statically

	arch, suite string
	cache       string // directory of the files
}

// Get returns the newest cloud kernel of a Debian suite. It fetches the kernel if it is not in the cache in dir. To get a newer one, remove its
// directory from the cache.
func Get(dir, arch, suite string) (*Kernel, error) {
	dir = filepath.Join(dir, arch+"-"+suite)
	k, err := read(dir)
	if err != nil {
		if err := fetch(dir, arch, suite); err != nil {
			return nil, fmt.Errorf("get the kernel of Debian %s for %s: %w", suite, arch, err)
		}
		if k, err = read(dir); err != nil {
			return nil, err
		}
	}
	k.arch, k.suite = arch, suite
	return k, nil
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
		cache:   dir,
	}, nil
}

// fetch puts the files of a kernel into dir.
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
			// Under emulation, the kernel takes many seconds to decompress itself.
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
	if err := archive.Extract(packageOf(archive, newest, "linux-binary-"), image, filepath.Join(dir, "kernel")); err != nil {
		return err
	}
	if err := archive.Extract("busybox-static", busybox, filepath.Join(dir, "busybox")); err != nil {
		return err
	}
	release := strings.TrimPrefix(newest, "linux-image-")
	return os.WriteFile(filepath.Join(dir, "release"), []byte(release), 0o644)
}

// packageOf returns the package with a part of the kernel. From 7.x on the image package is empty, and depends on packages with the parts.
func packageOf(a *apt.Archive, image, prefix string) string {
	pkg, err := dependency(a, image, prefix)
	if err != nil {
		return image
	}
	return pkg
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
