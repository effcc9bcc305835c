package object

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
)

// BuildID returns the build ID of the file at a path, or of this kernel's [vdso]. It returns nil if the file has none.
func (s Search) BuildID(path string) ([]byte, error) {
	if path != vdso {
		id, err := withFile(s, path, func(f *os.File) ([]byte, error) { return readBuildID(f) }, nil)
		if !errors.Is(err, errUnusual) {
			return id, err
		}
	}
	f, err := s.openPath(path)
	if err != nil {
		return nil, err
	}
	return f.image.buildID(), f.Close()
}

// errUnusual reports a file that is not of a 64-bit little-endian machine, or that has larger header tables than other files.
var errUnusual = errors.New("it is no usual ELF file")

// readBuildID returns the same build ID as findBuildID, but reads only the headers and the notes. It returns nil if there is none.
func readBuildID(file io.ReaderAt) ([]byte, error) {
	const headSize = 4096 // contains the program headers and the notes of nearly all files
	f := head{file: file}
	var err error
	if f.data, err = f.read(0, headSize); err != nil {
		return nil, err
	}
	var h elf.Header64
	if n, _ := binary.Decode(f.data, binary.LittleEndian, &h); n == 0 || string(h.Ident[:elf.EI_VERSION]) != elf.ELFMAG+"\x02\x01" {
		return nil, errUnusual
	}
	if h.Shnum == 0 && h.Shoff != 0 { // the number of sections is in the first section header
		return nil, errUnusual
	}
	left := uint64(maxNotes)
	find := func(offset, size, align uint64) ([]byte, error) {
		size = min(size, left)
		left -= size
		notes, err := f.read(offset, size)
		return BuildIDNote(notes, binary.LittleEndian, align), err
	}
	for p, err := range headers[elf.Prog64](&f, h.Phoff, h.Phnum, h.Phentsize) {
		var id []byte
		if err == nil && elf.ProgType(p.Type) == elf.PT_NOTE {
			id, err = find(p.Off, p.Filesz, p.Align)
		}
		if err != nil || id != nil {
			return id, err
		}
	}
	for s, err := range headers[elf.Section64](&f, h.Shoff, h.Shnum, h.Shentsize) {
		var id []byte
		if err == nil && elf.SectionType(s.Type) == elf.SHT_NOTE {
			id, err = find(s.Off, s.Size, s.Addralign)
		}
		if err != nil || id != nil {
			return id, err
		}
	}
	return nil, nil
}

// head is the beginning of a file.
type head struct {
	file io.ReaderAt
	data []byte
}

// read returns a part of the file, or less if the file ends there.
func (f *head) read(offset, size uint64) ([]byte, error) {
	if offset < uint64(len(f.data)) && size <= uint64(len(f.data))-offset {
		return f.data[offset : offset+size], nil
	}
	if offset > 1<<62 {
		return nil, nil
	}
	data := make([]byte, size)
	n, err := f.file.ReadAt(data, int64(offset))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// headers yields the headers of a table of count headers, each of the given size in bytes.
func headers[T elf.Prog64 | elf.Section64](f *head, offset uint64, count, size uint16) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var h T
		const most = 1 << 18 // bytes; binaries of a hundred sections have 6,400
		all := uint64(count) * uint64(size)
		if all > most {
			yield(h, errUnusual)
			return
		}
		data, err := f.read(offset, all)
		if err != nil {
			yield(h, err)
			return
		}
		for range count {
			if n, _ := binary.Decode(data, binary.LittleEndian, &h); n == 0 || int(size) > len(data) {
				yield(h, errUnusual)
				return
			}
			if !yield(h, nil) {
				return
			}
			data = data[size:]
		}
	}
}
