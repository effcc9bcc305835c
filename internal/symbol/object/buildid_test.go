package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// compareBuildID compares the build ID that the head of a file leads to with that of the whole file, and returns it.
func compareBuildID(t *testing.T, data []byte) string {
	t.Helper()
	id, err := headBuildID(bytes.NewReader(data))
	if err != nil && err != errNoHead {
		t.Fatal(err)
	}
	if f, err := New("file", data); err == nil && id != nil && f.BuildID() != hex.EncodeToString(id) {
		t.Errorf("%x, and the whole file has %s", id, f.BuildID())
	}
	return hex.EncodeToString(id)
}

// TestHeadBuildID has the note in several places.
func TestHeadBuildID(t *testing.T) {
	note := []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04")
	for name, c := range map[string]struct {
		headers int    // the note is that of the last
		at      uint64 // in the file
		size    uint64 // as the header has it
		want    string
	}{
		"in the head":             {1, 512, uint64(len(note)), "01020304"},
		"across its end":          {2, headSize - 10, uint64(len(note)), "01020304"},
		"behind it":               {3, 1 << 20, uint64(len(note)), "01020304"},
		"at the end of the file":  {1, 512, 1 << 40, "01020304"},
		"behind the file":         {1, 1 << 40, uint64(len(note)), ""},
		"too large an offset":     {1, 1 << 63, uint64(len(note)), ""},
		"headers behind the head": {100, 1 << 20, uint64(len(note)), ""}, // the whole file is read then
	} {
		t.Run(name, func(t *testing.T) {
			h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phoff: 64, Phentsize: 56, Phnum: uint16(c.headers),
				Shentsize: 64}
			copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
			var b bytes.Buffer
			_ = binary.Write(&b, binary.LittleEndian, h) // to memory
			for range c.headers - 1 {
				_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD)})
			}
			_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: c.at, Filesz: c.size, Align: 4})
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
