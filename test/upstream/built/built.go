// Package built builds what upstream has and no distribution packages like that, from Debian's package of the kernel's source: perf with its BPF
// skeletons, without which it has no `stat --bpf-counters`, and bpftool with its, without which it does not find who holds a program.
package built

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/whole"
)

// version is that of the kernel whose programs they are: Debian trixie's.
const version = "6.12"

// Perf returns the path of a statically linked perf for an architecture as Go calls it, out of the cache if it is there.
// To get that of a newer source package, remove its directory from the cache.
func Perf(arch string) (string, error) { return get("perf", arch, target.compilePerf) }

// Bpftool is the same of bpftool, for this machine. It has no disassembler.
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
	return target{}, fmt.Errorf("nothing of upstream for architecture %q: there are %s", arch, strings.Join(names, " and "))
}

// tree is what a program is compiled in.
type tree struct{ source, sysroot, out string }

// build makes binary. The source stays in dir, for the other programs.
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
