// Package perf builds upstream perf with its BPF skeletons, without which it has no `stat --bpf-counters`. No
// distribution packages it like that; the source is Debian's package of the kernel's.
package perf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/test/whole"
)

// version is that of the kernel whose perf it is: Debian trixie's.
const version = "6.12"

// Get returns the path of a statically linked perf for an architecture as Go calls it, out of the cache if it is there.
// To get that of a newer source package, remove its directory from the cache.
func Get(arch string) (string, error) {
	t, err := findTarget(arch)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "bperf", "upstream", "linux-"+version)
	binary := filepath.Join(dir, "perf-"+arch)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := t.build(dir, binary); err != nil {
		return "", fmt.Errorf("build upstream perf for %s: %w", arch, err)
	}
	return binary, nil
}

// target is an architecture to build for.
type target struct {
	arch    string // as Go and Debian call it
	kernel  string // as the kernel's makefiles call it
	triplet string // as compilers call it, and Debian's directories of headers
}

var targets = []target{
	{"amd64", "x86_64", "x86_64-linux-gnu"},
	{"arm64", "arm64", "aarch64-linux-gnu"},
}

func findTarget(arch string) (target, error) {
	var names []string
	for _, t := range targets {
		if t.arch == arch {
			return t, nil
		}
		names = append(names, t.arch)
	}
	return target{}, fmt.Errorf("no upstream perf for architecture %q: there are %s", arch, strings.Join(names, " and "))
}

// build makes binary. The source stays in dir, for the other architecture.
func (t target) build(dir, binary string) error {
	fmt.Fprintf(os.Stderr, "building upstream perf %s for %s: this takes a minute or two\n", version, t.arch)
	if err := needTools(); err != nil {
		return err
	}
	return whole.Make(binary, func(tmp string) (string, error) {
		source := filepath.Join(dir, "source")
		if _, err := os.Stat(source); err != nil {
			if err := fetchSource(source); err != nil {
				return "", err
			}
		}
		sysroot := filepath.Join(tmp, "sysroot")
		if err := fetchLibraries(sysroot, t.arch); err != nil {
			return "", err
		}
		return t.compile(source, sysroot, tmp)
	})
}
