package procfs

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const someMaps = `55c4b000-55c50000 r-xp 00002000 fe:1f 247766                     /usr/bin/a b (deleted)
7fff0000-7fff1000 rw-s 00000000 00:00 0
short
2000-1000 r--p 00000000 00:00 0
1000-2000 r--pp 00000000 00:00 0
1000-2000 r--p 00000000 0000 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
without a newline`

func TestMappings(t *testing.T) {
	type mapping struct {
		Mapping
		path string
	}
	want := []mapping{
		{Mapping{0x55c4b000, 0x55c50000, [4]byte([]byte("r-xp")), 0x2000, 0xfe, 0x1f, 247766, nil}, "/usr/bin/a b (deleted)"},
		{Mapping{0x7fff0000, 0x7fff1000, [4]byte([]byte("rw-s")), 0, 0, 0, 0, nil}, ""},
		{Mapping{0xffffffffff600000, 0xffffffffff601000, [4]byte([]byte("--xp")), 0, 0, 0, 0, nil}, "[vsyscall]"},
	}
	for _, size := range []int{100, 128, 4096} { // longer than any line
		var got []mapping
		for m := range Mappings(iotest.HalfReader(strings.NewReader(someMaps)), make([]byte, size)) {
			path := string(m.Path)
			m := *m
			m.Path = nil
			got = append(got, mapping{m, path})
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
			t.Errorf("%d bytes: %s", size, diff)
		}
	}
	n := 0
	for range Mappings(strings.NewReader(someMaps), make([]byte, 80)) { // the first line is longer
		n++
	}
	if n != 0 {
		t.Errorf("%d mappings with a buffer that is too small", n)
	}
	for m := range Mappings(strings.NewReader(someMaps), make([]byte, 4096)) {
		if !m.Executable() {
			t.Errorf("%+v is not executable", m)
		}
		break
	}
}

// TestOwnMappings reads the mappings of this process.
func TestOwnMappings(t *testing.T) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	for m := range Mappings(f, make([]byte, 4096)) {
		if string(m.Path) == self && m.Executable() && m.Inode != 0 {
			code++
		}
	}
	if code == 0 {
		t.Errorf("no code of %s is mapped", self)
	}
}

func FuzzMappings(f *testing.F) {
	f.Add([]byte(someMaps))
	f.Fuzz(func(t *testing.T, text []byte) {
		for m := range Mappings(bytes.NewReader(text), make([]byte, 256)) {
			if m.End <= m.Start || len(m.Path) > 256 {
				t.Fatalf("%+v", m)
			}
		}
	})
}
