package perf

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// compile runs perf's makefile and returns the path of the program, below tmp.
func (t target) compile(source, sysroot, tmp string) (string, error) {
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return "", err
	}
	bpftool, err := exec.LookPath("bpftool")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(out, "perf")
	headers := filepath.Join(sysroot, "usr", "include")
	// What is not in the sysroot, the makefile leaves out by itself; where it does not, or would take this machine's, it
	// is told. Makefile.perf directly: the Makefile in front of it drops half of the variables.
	cmd := exec.Command("make", "-s", fmt.Sprintf("-j%d", runtime.NumCPU()), "-f", "Makefile.perf", binary,
		"O="+out,
		"ARCH="+t.kernel,
		"CC=clang --target="+t.triplet+" --sysroot="+sysroot,
		"LD=ld.lld",
		"LDFLAGS=-static -fuse-ld=lld -lz", // libelf needs zlib, which the makefile's test of libelf does not know
		"HOSTCC=clang",
		"BPFTOOL="+bpftool,
		"BUILD_BPF_SKEL=1",
		"CLANG_SYS_INCLUDES=-idirafter "+filepath.Join(headers, t.triplet)+" -idirafter "+headers,
		"WERROR=0",
		"NO_DEMANGLE=1",
		"NO_JEVENTS=1",
		"NO_LIBLLVM=1",
		"NO_LIBTRACEEVENT=1",
		"NO_SHELLCHECK=1",
	)
	cmd.Dir = filepath.Join(source, "tools", "perf")
	// Nothing else of the environment: many variables mean something to the makefile, and MAKEFLAGS is that of ours.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	return binary, run(cmd)
}

// run runs a command that has nothing to say unless it fails.
func run(cmd *exec.Cmd) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}
