package built

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// compilePerf runs perf's makefile and returns the path of the program.
func (t target) compilePerf(in tree) (string, error) {
	bpftool, err := exec.LookPath("bpftool")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(in.out, "perf")
	headers := filepath.Join(in.sysroot, "usr", "include")
	// The makefile omits most features whose libraries are not in the sysroot. The NO_ variables disable the others, and those for which it
	// would use this machine's libraries. Makefile.perf is run directly because the Makefile in front of it drops half of the variables.
	return binary, in.make("perf", "-f", "Makefile.perf", binary,
		"O="+in.out,
		"ARCH="+t.kernel,
		"CC="+t.compiler(in),
		"LD=ld.lld",
		"LDFLAGS="+static,
		"HOSTCC=clang",
		"BPFTOOL="+bpftool,
		"BUILD_BPF_SKEL=1",
		"CLANG_SYS_INCLUDES=-idirafter "+filepath.Join(headers, t.triplet)+" -idirafter "+headers,
		// Replaces -O3, frame pointers, fortification and all warnings: building perf takes time, running it hardly any.
		"CORE_CFLAGS=-O1 -w -DNDEBUG=1 -std=gnu11 -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE",
		"WERROR=0",
		"NO_DEMANGLE=1",
		"NO_JEVENTS=1",
		"NO_LIBLLVM=1",
		"NO_LIBTRACEEVENT=1",
		"NO_SHELLCHECK=1",
	)
}

// compileBpftool runs bpftool's makefile and returns the path of the program. The makefile first builds a small bpftool, which makes the
// skeletons, and takes types from this machine's kernel.
func (t target) compileBpftool(in tree) (string, error) {
	return filepath.Join(in.out, "bpftool"), in.make(filepath.Join("bpf", "bpftool"),
		"OUTPUT="+in.out+"/",
		"CC="+t.compiler(in),
		"HOSTCC="+t.compiler(in)+" "+static+" -Wno-unused-command-line-argument", // also links a program that has no LDFLAGS
		"LD=ld.lld",
		"HOSTLD=ld.lld",
		"EXTRA_LDFLAGS="+static,
		"VMLINUX_BTF=/sys/kernel/btf/vmlinux",
		"LLVM_CONFIG=false",
	)
}

// static are the flags to link statically. libelf needs zlib, which the makefiles' test for libelf does not link.
const static = "-static -fuse-ld=lld -lz"

func (t target) compiler(in tree) string {
	return "clang --target=" + t.triplet + " --sysroot=" + in.sysroot
}

// make runs the makefile of a directory of tools.
func (in tree) make(dir string, args ...string) error {
	cmd := exec.Command("make", append([]string{"-s", fmt.Sprintf("-j%d", runtime.NumCPU())}, args...)...)
	cmd.Dir = filepath.Join(in.source, "tools", dir)
	// Nothing else of the environment: the makefiles read many variables, and MAKEFLAGS is that of bperf's own make.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	return run(cmd)
}

// run runs a command. An error includes the command's standard error.
func run(cmd *exec.Cmd) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}
