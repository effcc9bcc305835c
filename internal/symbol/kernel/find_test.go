package kernel

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// note is an ELF note.
func note(kind uint32, name, description string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(description)))
	b = binary.NativeEndian.AppendUint32(b, kind)
	for _, s := range []string{name, description} {
		b = append(b, s+strings.Repeat("\x00", -len(s)&3)...)
	}
	return b
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	p := Places{"/proc/kallsyms", filepath.Join(dir, "notes"), filepath.Join(dir, "cache")}
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cached := filepath.Join(p.Cache, "[kernel.kallsyms]/0102/kallsyms")
	old := filepath.Join(p.Cache, "[kernel.kallsyms]/0304")
	write(cached, nil)
	write(old, nil)
	for _, test := range []struct {
		name    string
		notes   []byte
		buildID string
		want    string
		err     string
	}{
		{"none asked for", nil, "", p.Kallsyms, ""},
		{"the one that runs", append(note(5, "Linux\x00", "x"), note(3, "GNU\x00", "\xab\xcd")...), "abcd", p.Kallsyms, ""},
		{"kept", note(3, "GNU\x00", "\xab\xcd"), "0102", cached, ""},
		{"kept by an old perf", note(3, "GNU\x00", "\xab\xcd"), "0304", old, ""},
		{"nowhere", note(3, "GNU\x00", "\xab\xcd"), "0506", "", "build ID 0506. This machine's is abcd, and " + p.Cache + " has none"},
		{"no notes", nil, "0506", "", "is not known"},
		{"broken notes", note(3, "GNU\x00", "\xab\xcd")[:13], "abcd", "", "has no build ID"},
	} {
		write(p.Notes, test.notes)
		got, err := p.Find(test.buildID)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %q, %v; not %q, %q", test.name, got, err, test.want, test.err)
		}
	}
}

func TestThisBuildID(t *testing.T) {
	require.Root(t)
	id, err := readBuildID("/sys/kernel/notes")
	if err != nil || len(id) != 40 {
		t.Errorf("%q, %v", id, err)
	}
}
