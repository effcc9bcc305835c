package record

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/symbol/object"
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

func TestNoteBuildID(t *testing.T) {
	le := binary.LittleEndian
	note := func(kind uint32, name, content string) []byte {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, uint32(len(name))), uint32(len(content))), kind)
		b = append(b, name...)
		b = append(b, make([]byte, -len(name)&3)...)
		b = append(b, content...)
		return append(b, make([]byte, -len(content)&3)...)
	}
	other := note(1, "Linux\x00", "12345")
	for name, tt := range map[string]struct {
		notes []byte
		want  string
	}{
		"first":    {note(3, "GNU\x00", "identity"), "identity"},
		"second":   {append(bytes.Clone(other), note(3, "GNU\x00", "identity")...), "identity"},
		"too long": {note(3, "GNU\x00", "01234567890123456789more"), "01234567890123456789"},
		"none":     {other, ""},
		"cut":      {note(3, "GNU\x00", "identity")[:20], ""},
		"empty":    {nil, ""},
	} {
		if got := string(recorded(object.BuildIDNote(tt.notes, le, 4))); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// FuzzNoteBuildID parses hostile ELF notes.
func FuzzNoteBuildID(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id := recorded(object.BuildIDNote(b, binary.LittleEndian, 4)); len(id) > 20 {
			t.Fatalf("a build ID of %d bytes", len(id))
		}
	})
}
