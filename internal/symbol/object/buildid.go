package object

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// BuildID reads the build ID of the file at a path, or of this kernel's [vdso]; nil if it has none. Of programs and libraries, it reads no more than the
// kernel does for PERF_RECORD_MMAP2: what the program headers lead to.
func (s Search) BuildID(path string) ([]byte, error) {
	if path != vdso {
		id, err := withFile(s, path, func(f *os.File) ([]byte, error) { return headBuildID(f) }, nil)
		if !errors.Is(err, errNoHead) {
			return id, err
		}
	}
	f, err := s.openPath(path)
	if err != nil {
		return nil, err
	}
	return f.image.buildID(), f.Close()
}

// headSize is how much of a file is read at once for its build ID: nearly all have it there, behind their program headers.
const headSize = 4096

// errNoHead says that the program headers are not all in the head of a file, or that it is not of a 64-bit little-endian machine.
var errNoHead = errors.New("its head does not have all program headers")

// headBuildID returns the build ID that the program headers of a file lead to; nil if they lead to none.
func headBuildID(file io.ReaderAt) ([]byte, error) {
	read := func(offset, size uint64) ([]byte, error) {
		data := make([]byte, size)
		n, err := file.ReadAt(data, int64(offset))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return data[:n], err
	}
	head, err := read(0, headSize)
	if err != nil {
		return nil, err
	}
	var h elf.Header64
	if n, _ := binary.Decode(head, binary.LittleEndian, &h); n == 0 || string(h.Ident[:elf.EI_VERSION]) != elf.ELFMAG+"\x02\x01" {
		return nil, errNoHead
	}
	count, size := uint64(h.Phnum), uint64(h.Phentsize)
	if count == 0 || h.Phoff > uint64(len(head)) || count*size > uint64(len(head))-h.Phoff {
		return nil, errNoHead
	}
	left := uint64(maxNotes)
	for i := range count {
		var p elf.Prog64
		if n, _ := binary.Decode(head[h.Phoff+i*size:], binary.LittleEndian, &p); n == 0 {
			return nil, errNoHead
		}
		if elf.ProgType(p.Type) != elf.PT_NOTE || p.Off > 1<<62 {
			continue
		}
		size := min(p.Filesz, left)
		left -= size
		var notes []byte
		if p.Off < uint64(len(head)) && size <= uint64(len(head))-p.Off {
			notes = head[p.Off : p.Off+size]
		} else if notes, err = read(p.Off, size); err != nil {
			return nil, err
		}
		if id := BuildIDNote(notes, binary.LittleEndian, p.Align); id != nil {
			return id, nil
		}
	}
	return nil, nil
}
