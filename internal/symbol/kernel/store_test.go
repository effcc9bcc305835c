package kernel

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/userfile"
	"github.com/bperf/bperf/test/require"
)

// key names the kernel of the tests.
var key = []byte("this kernel")

// stored returns symbols after they were written to a file and read again.
func stored(t testing.TB, k *Kallsyms, reference string, address uint64) *Kallsyms {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache", "bperf", "symbols")
	if err := k.Store(path, key); err != nil {
		t.Fatal(err)
	}
	again, err := Stored(path, key, reference, address)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// wantSame checks that stored symbols give the same answer at an address, if they are sure of it.
func wantSame(t *testing.T, k, stored *Kallsyms, addr uint64) (sure bool) {
	t.Helper()
	want, found := k.Find(addr)
	got, ok, sure := stored.FindStored(addr)
	if sure && (ok != found || got != want) {
		t.Fatalf("at %#x: %+v %v, want %+v %v", addr, got, ok, want, found)
	}
	return sure
}

func TestStored(t *testing.T) {
	const before, between = "ffffffff7f000000 t bpf_prog_0_x\t[bpf]\n", "ffffffff82000000 t bpf_prog_2_x\t[bpf]\n"
	for name, text := range map[string]string{"modules": text, "first": before + text, "between": text + between} {
		t.Run(name, func(t *testing.T) {
			k := parse(t, text)
			again := stored(t, k, "", 0)
			for _, around := range []uint64{0xffffffff7f000000, 0xffffffff81000000, 0xffffffff81fff010, 0xffffffffc0000000, 0xffffffffc0002000, 1 << 63} {
				for addr := around - 0x10; addr < around+0x3000; addr++ {
					wantSame(t, k, again, addr)
				}
			}
			for _, addr := range []uint64{0xffffffff81000000, 0xffffffff81000041, 0xffffffffc0000000, 0xffffffffc0003008, ^uint64(0)} {
				if !wantSame(t, k, again, addr) {
					t.Errorf("unsure at %#x", addr)
				}
			}
		})
	}
}

// TestStoredElsewhere relocates stored symbols to another boot.
func TestStoredElsewhere(t *testing.T) {
	const moved = 0x200000
	k, err := Parse(strings.NewReader(text), "_stext", 0xffffffff81000000+moved)
	if err != nil {
		t.Fatal(err)
	}
	again := stored(t, parse(t, text), "_stext", 0xffffffff81000000+moved)
	for addr := uint64(0xffffffff81000000); addr < 0xffffffff81000000+moved+0x100; addr += 8 {
		wantSame(t, k, again, addr)
	}
	wantSame(t, k, again, 0xffffffffc0000000+moved)
	path := filepath.Join(t.TempDir(), "symbols")
	if err := parse(t, text).Store(path, key); err != nil {
		t.Fatal(err)
	}
	if _, err := Stored(path, key, "_nothing", 1); err == nil {
		t.Error("no error for an unknown reference")
	}
}

// TestStoredKernel stores the symbols of this machine's kernel.
func TestStoredKernel(t *testing.T) {
	require.Root(t)
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k, err := Parse(f, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	again, sure := stored(t, k, "", 0), 0
	for i, s := range k.segments {
		for j := int(s.first); j < k.lastOf(i); j++ {
			if wantSame(t, k, again, s.base+uint64(k.entries.at(j).start)) {
				sure++
			}
		}
	}
	if sure < k.entries.len()*9/10 {
		t.Errorf("sure of %d symbols of %d", sure, k.entries.len())
	}
}

// TestForeignFiles checks that files are refused that others can change, or that are no files.
func TestForeignFiles(t *testing.T) {
	k := parse(t, text)
	for name, spoil := range map[string]func(path string) error{
		"none":      os.Remove,
		"writable":  func(path string) error { return os.Chmod(path, 0o666) },
		"directory": func(path string) error { return replaced(path, func(string) error { return os.Mkdir(path, 0o700) }) },
		"link": func(path string) error {
			return replaced(path, func(old string) error { return os.Symlink(old, path) })
		},
		"pipe": func(path string) error {
			return replaced(path, func(string) error { return syscall.Mkfifo(path, 0o600) })
		},
		"other key": func(path string) error { return k.Store(path, []byte("that kernel")) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 100) },
	} {
		path := filepath.Join(t.TempDir(), "symbols")
		if err := k.Store(path, key); err != nil {
			t.Fatal(err)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Stored(path, key, "", 0); err == nil {
			t.Errorf("%s: no error", name)
		}
		err := k.Store(path, key)
		if repairs := name == "none" || name == "other key" || name == "empty" || name == "cut"; (err == nil) != repairs {
			t.Errorf("%s: stored again: %v", name, err)
		}
	}
	require.Root(t)
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := k.Store(filepath.Join(dir, "new", "symbols"), key); err == nil {
		t.Error("stored in the directory of another user")
	}
}

// TestCutOff cuts off the file of symbols in use. Stored symbols are replaced without harm.
func TestCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symbols")
	k := parse(t, text)
	if err := k.Store(path, key); err != nil {
		t.Fatal(err)
	}
	const addr = 0xffffffff81000041
	mapped, err := Stored(path, key, "", 0)
	if err != nil || !wantSame(t, k, mapped, addr) {
		t.Fatalf("unsure at %#x, or not stored: %v", uint64(addr), err)
	}
	if err := k.Store(path, []byte("another kernel")); err != nil {
		t.Fatal(err)
	}
	if !wantSame(t, k, mapped, addr) {
		t.Error("unsure after the file was replaced")
	}
	if err := k.Store(path, key); err != nil {
		t.Fatal(err)
	}
	if mapped, err = Stored(path, key, "", 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if wantSame(t, k, mapped, addr) {
		t.Error("sure although the file is empty")
	}
}

// replaced moves a file away and calls put, which puts something in its place.
func replaced(path string, put func(old string) error) error {
	if err := os.Rename(path, path+".old"); err != nil {
		return err
	}
	return put(path + ".old")
}

// TestDamaged changes each byte of a file.
func TestDamaged(t *testing.T) {
	file := parse(t, text).encode(key)
	if _, err := decode(file, key); err != nil {
		t.Fatal(err)
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1
		if _, err := decode(damaged, key); err == nil {
			t.Errorf("no error for another byte %d", i)
		}
	}
}

// FuzzStored reads files whose sum is right.
func FuzzStored(f *testing.F) {
	f.Add(parse(f, text).encode(key))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		if start := binary.Size(h); len(b) >= start {
			binary.LittleEndian.PutUint32(b[len(h.Magic):], crc32.Checksum(b[start:], userfile.Castagnoli()))
		}
		k, err := decode(b, key)
		if err != nil {
			return
		}
		k.address("last")
		for _, s := range k.segments {
			for addr := s.base - 2; addr != s.base+100; addr++ {
				k.FindStored(addr)
			}
		}
	})
}
