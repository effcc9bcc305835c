// Package built builds upstream programs in a configuration that no distribution packages. The source is Debian's package of the kernel's
// source. perf is built with its BPF skeletons, which `stat --bpf-counters` needs. bpftool is built with its skeletons, which it needs to
// find the processes that hold a program.
package built

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/whole"
)

// version is the kernel version of the source: Debian trixie's.
const version = "6.12"

// Perf returns the path of a statically linked perf for an architecture, named as in Go. It builds perf if it is not in the cache.
// To build from a newer source package, remove the directory from the cache.
func Perf(arch string) (string, error) { return get("perf", arch, target.compilePerf) }

// Bpftool returns the path of a statically linked bpftool for this machine, built like Perf. It has no disassembler.
func Bpftool() (string, error) { return get("bpftool", runtime.GOARCH, target.compileBpftool) }

func get(program, arch string, compile func(target, tree) (string, error)) (string, error) {
	t, err := findTarget(arch)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "bperf", "upstream", "linux-"+version)
	binary := filepath.Join(dir, program+"-"+arch)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	fmt.Fprintf(os.Stderr, "building upstream %s %s for %s: this takes a minute or two\n", program, version, arch)
	if err := t.build(dir, binary, compile); err != nil {
		return "", fmt.Errorf("build upstream %s for %s: %w", program, arch, err)
	}
	return binary, nil
}

// target is an architecture to build for.
type target struct {
	arch    string // name in Go and Debian
	kernel  string // name in the kernel's makefiles
	triplet string // name for compilers and in Debian's header directories
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
	return target{}, fmt.Errorf("nothing of upstream for architecture %q: there are %s", arch, strings.Join(names, " and "))
}

// tree has the directories that a program is compiled in.
type tree struct{ source, sysroot, out string }

// build builds binary. The source stays in dir for the other programs.
func (t target) build(dir, binary string, compile func(target, tree) (string, error)) error {
	if err := needTools(); err != nil {
		return err
	}
	return whole.Make(binary, func(tmp string) (string, error) {
		in := tree{filepath.Join(dir, "tree"), filepath.Join(tmp, "sysroot"), filepath.Join(tmp, "out")}
		if _, err := os.Stat(in.source); err != nil {
			if err := fetchSource(in.source); err != nil {
				return "", err
			}
		}
		if err := fetchLibraries(in.sysroot, t.arch); err != nil {
			return "", err
		}
		if err := os.Mkdir(in.out, 0o755); err != nil {
			return "", err
		}
		return compile(t, in)
	})
}
