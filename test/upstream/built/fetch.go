package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

const (
	sourceSuite   = "trixie"
	sourcePackage = "linux-source-" + version

	// librariesSuite is an older one: the static libelf of trixie calls a function that it does not contain.
	librariesSuite = "bookworm"
)

// sources are what they are made from, in the kernel's tree; tools/perf/MANIFEST has the list that perf is released with.
var sources = []string{
	"arch/arm64/include/uapi/asm/bpf_perf_event.h",
	"arch/arm64/tools",
	"kernel/bpf/disasm.c",
	"kernel/bpf/disasm.h",
	"scripts/bpf_doc.py",
	"tools/arch",
	"tools/bpf/bpftool",
	"tools/build",
	"tools/include",
	"tools/lib",
	"tools/perf",
	"tools/scripts",
}

// libraries are what a static program needs, with the headers, to be compiled and linked for another machine.
var libraries = []string{"libc6-dev", "linux-libc-dev", "libgcc-12-dev", "libelf-dev", "zlib1g-dev"}

// needTools makes sure of all that compiles. Clang with lld does for every architecture, and for BPF it has to be there.
func needTools() error {
	return apt.Need(map[string]string{
		"bison":    "bison",
		"bpftool":  "bpftool",
		"clang":    "clang",
		"dpkg-deb": "dpkg",
		"flex":     "flex",
		"ld.lld":   "lld",
		"make":     "make",
		"python3":  "python3",
		"tar":      "tar",
		"xz":       "xz-utils",
	})
}

var tarball = regexp.MustCompile(`/usr/src/linux-source-[^/]+\.tar\.xz$`)

// fetchSource fills dir.
func fetchSource(dir string) error {
	archive, err := apt.OpenArchive(sourceSuite, "amd64") // the package is the same for all architectures
	if err != nil {
		return fmt.Errorf("get %s of Debian %s: %w", sourcePackage, sourceSuite, err)
	}
	defer archive.Close()
	return whole.Make(dir, func(tmp string) (string, error) {
		file := filepath.Join(tmp, "source.tar.xz")
		if err := archive.Extract(sourcePackage, tarball, file); err != nil {
			return "", fmt.Errorf("get the source of Debian %s: %w", sourceSuite, err)
		}
		unpacked := filepath.Join(tmp, "source")
		return unpacked, unpack(file, unpacked)
	})
}

func unpack(file, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Perf takes its version from there; in the source it is in makefiles that include those of the whole kernel.
	line := fmt.Sprintf("#define PERF_VERSION %q\n", version)
	if err := os.WriteFile(filepath.Join(dir, "PERF-VERSION-FILE"), []byte(line), 0o644); err != nil {
		return err
	}
	args := []string{"--use-compress-program=xz -T0", "--strip-components=1", "-C", dir, "-xf", file}
	for _, s := range sources {
		args = append(args, sourcePackage+"/"+s)
	}
	return run(exec.Command("tar", args...))
}

func fetchLibraries(sysroot, arch string) error {
	archive, err := apt.OpenArchive(librariesSuite, arch)
	if err != nil {
		return fmt.Errorf("get the libraries of Debian %s for %s: %w", librariesSuite, arch, err)
	}
	defer archive.Close()
	return archive.Unpack(sysroot, libraries...)
}
