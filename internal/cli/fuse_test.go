package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/fuse"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestFilesThatDoNotAnswer runs a process whose executable is on a file system that has stopped answering. A command that read the file
// would never end, not even by SIGKILL.
func TestFilesThatDoNotAnswer(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	require.FUSE(t)
	dir := t.TempDir()
	silence := serveProgram(t, dir)
	spinning := exec.Command(filepath.Join(dir, fuse.Name))
	if err := spinning.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = spinning.Process.Kill()
		_ = spinning.Wait()
	})
	silence()
	pid, recording := strconv.Itoa(spinning.Process.Pid), filepath.Join(t.TempDir(), "perf.data")
	const why = "it is on a file system of FUSE"
	for _, args := range []string{
		"record -o " + recording + " -a", "record -o " + recording + " -p " + pid, "report -i " + recording, "script -i " + recording,
		"profile -p " + pid, "profile -a",
	} {
		args := strings.Fields(args)
		reads := args[1] == "-i"
		if !reads {
			args = append(args, "-e", "cpu-clock", "--timeout", "200")
		}
		eventually(t, fmt.Sprintf("%q shows the process", args), func() bool { // on a busy machine the process may not run in that time
			got := run(t, bperf(args...))
			if got.status != 0 {
				t.Fatalf("bperf %s: status %d\n%s", args, got.status, got.stderr)
			}
			return args[0] == "record" || strings.Contains(got.stdout, fuse.Name) && strings.Contains(got.stderr, why)
		})
	}
}

// serveProgram serves a file system with a program that spins, until the test ends. After silence, it answers no request.
func serveProgram(t *testing.T, dir string) (silence func()) {
	t.Helper()
	server := exec.Command("/proc/self/exe", dir, program.Program{Body: program.Spin, Times: 1 << 60}.Write(t))
	server.Env = append(os.Environ(), serveFUSE+"=1")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines, _, stderr := startReading(t, server)
	t.Cleanup(func() {
		_ = in.Close()
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	})
	wait := func() {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	wait()
	return func() {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		wait()
	}
}
