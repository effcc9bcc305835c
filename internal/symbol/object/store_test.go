package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bperf/bperf/test/require"
)

const storedSize = 300_000

// storedSection returns a section for a test. It is decompressed from r.
func storedSection(t *testing.T, dir string, data []byte, r io.Reader) *inflating {
	t.Helper()
	z, err := newInflating(r, uint64(len(data)), []byte("compressed"), &store{dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// fillAndClose fills a section up to end, and wants the data.
func fillAndClose(t *testing.T, z *inflating, data []byte, end uint64) {
	t.Helper()
	if valid := z.fill(end); valid < end || !bytes.Equal(z.data[:valid], data[:valid]) {
		t.Errorf("%d bytes of %d are valid, and equal: %v", valid, end, bytes.Equal(z.data[:valid], data[:valid]))
	}
	if err := z.close(); err != nil {
		t.Error(err)
	}
}

// storedFile returns the only file of a store.
func storedFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v: want one file", files, err)
	}
	return files[0]
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // never fails
	return data
}

// unread fails when it is read.
func unread() io.Reader { return iotest.ErrReader(errors.New("decompressed, though stored")) }

// TestStoredSections stores as much of a section as was needed, and decompresses only what is not stored.
func TestStoredSections(t *testing.T) {
	data, dir := randomBytes(storedSize), filepath.Join(t.TempDir(), "a", "b")
	fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, 10)
	fillAndClose(t, storedSection(t, dir, data, unread()), data, inflateStep)
	fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, 2*inflateStep+1)
	fillAndClose(t, storedSection(t, dir, data, unread()), data, 3*inflateStep)
	whole := storedSection(t, dir, data, bytes.NewReader(data))
	part := storedSection(t, dir, data, bytes.NewReader(data)) // another process at the same time
	part.fill(1)
	fillAndClose(t, whole, data, storedSize)
	fillAndClose(t, part, data, 4*inflateStep)
	fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, storedSize)
	fillAndClose(t, storedSection(t, dir, data, unread()), data, storedSize)

	info, err := os.Stat(storedFile(t, dir))
	if err != nil || info.Mode() != 0o600 || info.Size() != storedSize+storedSumSize {
		t.Errorf("%v, %v", info, err)
	}
}

// TestStoredSectionBroken keeps what is stored of a section that cannot be decompressed any more.
func TestStoredSectionBroken(t *testing.T) {
	data, dir := randomBytes(storedSize), t.TempDir()
	fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, 10)
	z := storedSection(t, dir, data, unread())
	for range 2 {
		if valid := z.fill(storedSize); valid != inflateStep {
			t.Errorf("%d bytes are valid, want %d", valid, inflateStep)
		}
	}
	fillAndClose(t, z, data, inflateStep)
	fillAndClose(t, storedSection(t, dir, data, unread()), data, inflateStep)
}

// TestStoredSectionGoesOn decompresses more than is stored after the store has gone: to another file, and to memory.
func TestStoredSectionGoesOn(t *testing.T) {
	for name, inFile := range map[string]bool{"": true, "/missing": false} {
		data, dir := randomBytes(storedSize), t.TempDir()
		t.Setenv("TMPDIR", t.TempDir()+name)
		fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, 10)
		z := storedSection(t, dir, data, bytes.NewReader(data))
		if valid := z.fill(10); valid != inflateStep || !z.inFile {
			t.Errorf("%d bytes of %d are stored, in a file: %v", valid, inflateStep, z.inFile)
		}
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		z.fill(storedSize)
		if z.inFile != inFile {
			t.Errorf("the rest is in a file: %v, want %v", z.inFile, inFile)
		}
		fillAndClose(t, z, data, storedSize)
	}
}

// TestStoredSectionUnneeded wants no file if nothing was needed.
func TestStoredSectionUnneeded(t *testing.T) {
	data, dir := randomBytes(storedSize), t.TempDir()
	if err := storedSection(t, dir, data, unread()).close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestStoredSectionsDamaged does not use files that are not those that bperf has written, and replaces them.
func TestStoredSectionsDamaged(t *testing.T) {
	data := randomBytes(storedSize)
	rewrite := func(change func([]byte) []byte) func(string) error {
		return func(path string) error {
			old, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, change(old), 0o600))
		}
	}
	for name, damage := range map[string]func(path string) error{
		"another byte":       rewrite(func(b []byte) []byte { b[1000] ^= 1; return b }),
		"another sum":        rewrite(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"cut":                rewrite(func(b []byte) []byte { return b[:len(b)-1000] }),
		"zeros":              rewrite(func(b []byte) []byte { clear(b); return b }),
		"empty":              rewrite(func([]byte) []byte { return nil }),
		"too long":           rewrite(func(b []byte) []byte { return append(b, b...) }),
		"others may change":  func(path string) error { return os.Chmod(path, 0o622) },
		"of somebody else":   func(path string) error { return os.Chown(path, 12345, 0) },
		"a symbolic link":    func(path string) error { return errors.Join(os.Rename(path, path+"-"), os.Symlink(path+"-", path)) },
		"an empty directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "somebody") {
				require.Root(t)
			}
			dir := t.TempDir()
			fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, storedSize)
			path := storedFile(t, dir)
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			fillAndClose(t, storedSection(t, dir, data, bytes.NewReader(data)), data, storedSize)
			fillAndClose(t, storedSection(t, dir, data, unread()), data, storedSize)
		})
	}
}

// TestSectionsNotStored wants sections in scratch files where they cannot be stored.
func TestSectionsNotStored(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	write(t, file, nil)
	for _, tt := range []struct {
		dir  string
		size int
	}{{"", storedSize}, {file, storedSize}, {filepath.Join(file, "below"), storedSize}, {filepath.Join(root, "sections"), 1000}} {
		data := randomBytes(tt.size)
		z := storedSection(t, tt.dir, data, bytes.NewReader(data))
		z.fill(1)
		if z.stored != nil || !z.inFile {
			t.Errorf("%q, %d bytes: it is to be stored: %v, in a file: %v", tt.dir, tt.size, z.stored != nil, z.inFile)
		}
		fillAndClose(t, z, data, uint64(tt.size))
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestTrim keeps the files that were used last, and what is not its own.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprintf("%064d", i))
		write(t, path, make([]byte, 100))
		used := time.Unix(int64(1000-i%3), 0)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "notes"), make([]byte, 1000))
	if err := trim(dir, 399); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for i := range files {
		files[i] = strings.TrimLeft(filepath.Base(files[i]), "0")
	}
	if err != nil || len(files) != 4 || slices.Contains(files, "2") || !slices.Contains(files, "notes") {
		t.Errorf("%q, %v", files, err)
	}
}

// TestStoredFrames compares the functions of a program whose sections are stored with those of the program without compression, in a
// second run, too.
func TestStoredFrames(t *testing.T) {
	need(t, "gcc", "objcopy")
	source := filepath.Join(t.TempDir(), "many.c")
	text := []byte("int main(int n, char **v) { return n; }\n")
	for i := range 2000 {
		text = fmt.Appendf(text, "static inline __attribute__((always_inline)) int in%d(int a) { return a * %d ^ a; }\nint f%d(int a) { return in%d(a) + 1; }\n", i, i, i, i)
	}
	write(t, source, text)
	plain := strings.TrimSuffix(source, ".c")
	run(t, "", "gcc", "-g", "-O1", "-gno-as-loc-support", "-o", plain, source)
	packed := plain + ".packed"
	run(t, "", "objcopy", "--compress-debug-sections=zlib", plain, packed)
	whole := open(t, plain)
	addrs := code(whole, 3)
	search := Search{Sections: filepath.Join(t.TempDir(), "sections")}
	for i := range 2 {
		f, err := search.Open(packed, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range addrs {
			if got, want := frames(f, addr), frames(whole, addr); !slices.Equal(got, want) {
				t.Fatalf("%#x is %+v, want %+v", addr, got, want)
			}
		}
		from := uint64(0)
		for _, z := range f.debugInfo.inflating {
			if z.stored != nil {
				from += z.stored.from
			}
		}
		if (from > 0) != (i == 1) {
			t.Errorf("%d bytes come from an earlier run in run %d", from, i)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
