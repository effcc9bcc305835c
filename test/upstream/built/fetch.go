package built

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

const (
	sourceSuite   = "trixie"
	sourcePackage = "linux-source-" + version

	// librariesSuite is an older suite, because the static libelf of trixie calls a function that it does not contain.
	librariesSuite = "bookworm"
)

// sources are the parts of the kernel's tree that the programs are built from. tools/perf/MANIFEST has the list of perf's releases.
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

// libraries are the packages with the headers and static libraries that are needed to build a static program for another machine.
var libraries = []string{"libc6-dev", "linux-libc-dev", "libgcc-12-dev", "libelf-dev", "zlib1g-dev"}

// needTools makes sure that the build tools are installed. clang and lld build for every architecture; BPF needs clang anyway.
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

// fetchSource puts the source into dir.
func fetchSource(dir string) error {
	archive, err := apt.OpenArchive(sourceSuite, "amd64") // the package is the same for all architectures
	if err != nil {
		return fmt.Errorf("get %s of Debian %s: %w", sourcePackage, sourceSuite, err)
	}
	defer archive.Close()
	return whole.Make(dir, func(tmp string) (string, error) {
		unpacked := filepath.Join(tmp, "source")
		if err := archive.UnpackSource(sourcePackage, unpacked, sources...); err != nil {
			return "", err
		}
		// perf reads its version from this file. In the source, makefiles that include those of the whole kernel make it.
		line := fmt.Sprintf("#define PERF_VERSION %q\n", version)
		return unpacked, os.WriteFile(filepath.Join(unpacked, "PERF-VERSION-FILE"), []byte(line), 0o644)
	})
}

func fetchLibraries(sysroot, arch string) error {
	archive, err := apt.OpenArchive(librariesSuite, arch)
	if err != nil {
		return fmt.Errorf("get the libraries of Debian %s for %s: %w", librariesSuite, arch, err)
	}
	defer archive.Close()
	return archive.Unpack(sysroot, libraries...)
}
