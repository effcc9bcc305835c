package record

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// TestMappedPipe reads the build ID at a path where a FIFO and a file take turns. A reader that waits for a writer makes no progress,
// whatever the number of turns.
func TestMappedPipe(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(path, []byte("no ELF file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(other, 0o600); err != nil {
		t.Fatal(err)
	}
	const reads, mostTurns = 5000, 5_000_000
	var done atomic.Int64
	go func() {
		b := buildIDs{proc: "/proc"}
		for range reads {
			_, _, _ = b.read(mapped{path, int32(os.Getpid())})
			done.Add(1)
		}
	}()
	for last, turns := int64(0), 0; last < reads; turns++ {
		if now := done.Load(); now != last {
			last, turns = now, 0
		}
		if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
		if turns == mostTurns {
			t.Fatalf("the reader is stuck after %d files", last)
		}
	}
}
