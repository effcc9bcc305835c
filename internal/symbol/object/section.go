package object

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Section is the contents of a section and the address they are loaded at.
type Section struct {
	Addr uint64
	Data []byte
}

// Section returns a copy of a section of the file, or else of its debugging information, decompressed. An unwinder
// wants .eh_frame, .eh_frame_hdr and .debug_frame.
func (f *File) Section(name string) (Section, error) {
	for _, i := range f.images() {
		var s Section
		err := guard(func() error {
			found := i.section(name)
			if found == nil {
				return nil
			}
			data, err := i.contents(found)
			s = Section{found.Addr, bytes.Clone(data)}
			return err
		})
		if err != nil {
			return Section{}, fmt.Errorf("read %s of %s: %w", name, f.path, err)
		}
		if len(s.Data) > 0 {
			return s, nil
		}
	}
	return Section{}, fmt.Errorf("%s has no %s", f.path, name)
}

// images are the file's contents and then those of its debugging information.
func (f *File) images() []*image {
	if f.debug == nil {
		return []*image{f.image}
	}
	return []*image{f.image, f.debug.image}
}

func (i *image) section(name string) *elf.Section {
	for _, s := range i.elf.Sections {
		if s.Name == name && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// maxExpansion bounds what compressed sections may grow by, and maxSection to how many bytes.
const (
	maxExpansion = 64
	maxSection   = 4 << 30
)

// contents returns the contents of a section: part of the file where it is not compressed.
func (i *image) contents(s *elf.Section) ([]byte, error) {
	raw := i.slice(s.Offset, s.FileSize)
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		if tooLarge(s.Size, len(raw)) {
			return nil, fmt.Errorf("%s claims to be of %d bytes, from %d compressed ones", s.Name, s.Size, len(raw))
		}
		return s.Data()
	case strings.HasPrefix(s.Name, ".zdebug_") && len(raw) > 12 && bytes.HasPrefix(raw, []byte("ZLIB")):
		return inflate(s.Name, raw)
	}
	return raw, nil
}

// inflate reads what compilers made before ELF knew compressed sections: a size, and a zlib stream.
func inflate(name string, raw []byte) ([]byte, error) {
	size := binary.BigEndian.Uint64(raw[4:])
	if tooLarge(size, len(raw)) {
		return nil, fmt.Errorf("%s claims to be of %d bytes, from %d compressed ones", name, size, len(raw))
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[12:]))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	data, err := io.ReadAll(io.LimitReader(z, int64(size)))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	return data, nil
}

func tooLarge(size uint64, compressed int) bool {
	return size > maxSection || size > uint64(compressed)*maxExpansion
}
