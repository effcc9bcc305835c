package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// TestInterrupted sends SIGINT or SIGTERM at a random moment: while bperf opens files, samples, or reads symbols. Each command must end
// with the results so far or by the signal, and its recording must be readable.
func TestInterrupted(t *testing.T) {
	require.Root(t)
	require.NoKernel(t) // a phase ends in the same way on all kernels
	times := 4
	if require.Long() {
		times = 50
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	existing := filepath.Join(t.TempDir(), "existing")
	if got := run(t, bperf("record", "-e", "cpu-clock", "-a", "-g", "-o", existing, "--timeout", "300")); got.status != 0 {
		t.Fatal(got.stderr)
	}
	for _, args := range []string{"record -a -o FILE", "record -a -g -o FILE -- sleep 0.3", "profile -a", "profile -a --timeout 300", "profile -- sleep 0.3",
		"report -i " + existing, "top --by process -d 0.1"} {
		for range times {
			file := filepath.Join(t.TempDir(), "perf.data")
			cmd := bperf(strings.Fields(strings.Replace(args, "FILE", file, 1))...)
			if strings.HasPrefix(args, "record") || strings.HasPrefix(args, "profile") {
				cmd.Args = append(cmd.Args[:2:2], append([]string{"-e", "cpu-clock"}, cmd.Args[2:]...)...)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			after, sig := time.Duration(random.IntN(600))*time.Millisecond, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[random.IntN(2)]
			time.Sleep(after) // the result does not depend on the phase
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.ExitStatus() != 0 && !(status.Signaled() && status.Signal() == sig) {
				t.Errorf("%s, %v after %v (seed %#x): %v\n%s", args, sig, after, seed, cmd.ProcessState, out.Bytes())
			}
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if got := run(t, bperf("report", "-i", file)); got.status != 0 {
				t.Errorf("%s, %v after %v (seed %#x): the recording cannot be read: %s", args, sig, after, seed, got.stderr)
			}
		}
	}
}
