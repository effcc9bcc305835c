package bpfprog

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEntryNames reads a directory with more entries than fit into one buffer.
func TestEntryNames(t *testing.T) {
	dir := t.TempDir()
	want := []string{".hidden", "..."}
	for i := range 100 {
		want = append(want, fmt.Sprint("file", i))
	}
	for _, name := range want {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := openat(unix.AT_FDCWD, terminated(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer closeFile(fd)
	var got []string
	buffer := make([]byte, 512)
	for {
		entries, err := readEntries(buffer, fd)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		for name := range entryNames(entries) {
			got = append(got, text(name))
		}
		for n := range entries {
			for range entryNames(entries[:n]) { // truncated anywhere, the iteration ends
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
