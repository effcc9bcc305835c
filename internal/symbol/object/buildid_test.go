package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// compareBuildID compares the result of BuildID with the build ID of the opened file, and returns it.
func compareBuildID(t *testing.T, data []byte) string {
	t.Helper()
	id, err := readBuildID(bytes.NewReader(data))
	if err != nil && err != errUnusual {
		t.Fatal(err)
	}
	if f, newErr := parse("file", data); newErr == nil && err == nil && f.BuildID() != hex.EncodeToString(id) {
		t.Errorf("%x, and the whole file has %s", id, f.BuildID())
	}
	return hex.EncodeToString(id)
}

// TestReadBuildID has the note in several positions.
func TestReadBuildID(t *testing.T) {
	const headSize = 4096 // is read at first
	note := []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04")
	for name, c := range map[string]struct {
		headers  int    // the last one has the note
		at       uint64 // in the file
		size     uint64 // as the header has it
		sections bool   // headers of sections
		want     string
	}{
		"in the head":             {1, 512, uint64(len(note)), false, "01020304"},
		"across its end":          {2, headSize - 10, uint64(len(note)), false, "01020304"},
		"behind it":               {3, 1 << 20, uint64(len(note)), false, "01020304"},
		"at the end of the file":  {1, 512, 1 << 40, false, "01020304"},
		"behind the file":         {1, 1 << 40, uint64(len(note)), false, ""},
		"too large an offset":     {1, 1 << 63, uint64(len(note)), false, ""},
		"headers behind the head": {100, 1 << 20, uint64(len(note)), false, "01020304"},
		"too many headers":        {5000, 1 << 20, uint64(len(note)), false, ""},
		"of a section":            {3, 512, uint64(len(note)), true, "01020304"},
		"of the last section":     {100, 1 << 20, uint64(len(note)), true, "01020304"},
	} {
		t.Run(name, func(t *testing.T) {
			h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64}
			copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
			var b bytes.Buffer
			write := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // to memory
			if c.sections {
				h.Shoff, h.Shnum = 64, uint16(c.headers)
			} else {
				h.Phoff, h.Phnum = 64, uint16(c.headers)
			}
			write(h)
			for i := range c.headers {
				last := i == c.headers-1
				switch {
				case c.sections && last:
					write(elf.Section64{Type: uint32(elf.SHT_NOTE), Off: c.at, Size: c.size, Addralign: 4})
				case c.sections:
					write(elf.Section64{})
				case last:
					write(elf.Prog64{Type: uint32(elf.PT_NOTE), Off: c.at, Filesz: c.size, Align: 4})
				default:
					write(elf.Prog64{Type: uint32(elf.PT_LOAD)})
				}
			}
			if c.at <= 1<<20 {
				b.Write(make([]byte, max(0, int(c.at)-b.Len())))
				b.Write(note)
			}
			if got := compareBuildID(t, b.Bytes()); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestBuildIDsOfPrograms compares the build IDs of this program, which has two notes, and of other programs.
func TestBuildIDsOfPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if id := compareBuildID(t, read(t, self)); id == "" {
		t.Errorf("%s has no build ID", self)
	}
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, "/bin/sh") {
		t.Log(path, compareBuildID(t, read(t, path)))
	}
}
