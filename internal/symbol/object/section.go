package object

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// Section is the contents of a section and its address.
type Section struct {
	Addr uint64
	Data []byte
}

// ErrNoSection reports that a file has no section with the given name.
var ErrNoSection = errors.New("there is no such section")

// Section returns a copy of a section, decompressed: from the file, or else from its debugging information. Unwinders need .eh_frame
// and .debug_frame.
func (f *File) Section(name string) (Section, error) {
	for _, i := range f.images() {
		var s Section
		err := guard(func() error {
			found := i.section(name)
			if found == nil {
				return nil
			}
			if found.Size > maxFrameInfo {
				return fmt.Errorf("it has %d bytes, and at most %d are read", found.Size, maxFrameInfo)
			}
			data, err := i.contents(found)
			s = Section{found.Addr, i.copy(data)}
			return err
		})
		if err != nil {
			return Section{}, fmt.Errorf("read %s of %s: %w", name, f.path, err)
		}
		if len(s.Data) > 0 {
			return s, nil
		}
	}
	return Section{}, fmt.Errorf("read %s of %s: %w", name, f.path, ErrNoSection)
}

// copy copies contents of the file. Only a part of them is in memory at a time.
func (i *image) copy(contents []byte) []byte {
	copied := make([]byte, 0, len(contents))
	for part := range slices.Chunk(contents, copiedAtOnce) {
		copied = append(copied, part...)
		i.forget()
	}
	return copied
}

// copiedAtOnce is the number of bytes that copy holds in memory twice.
const copiedAtOnce = 1 << 20

// images returns the image of the file, then that of its debugging information, if any.
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

// contents returns the contents of a section of at most maxContents bytes. They are part of the file unless the section is compressed.
func (i *image) contents(s *elf.Section) ([]byte, error) {
	r, size, err := i.decompressor(s)
	if r == nil {
		size = s.FileSize
	}
	switch {
	case err != nil:
		return nil, err
	case size > maxContents:
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", s.Name, size, maxContents)
	case r == nil:
		return i.slice(s.Offset, s.FileSize), nil
	}
	z := inflating{r: r, data: make([]byte, size), writable: true}
	z.buffer = z.data
	if n := z.fill(size); n < size {
		return nil, fmt.Errorf("decompress %s: it breaks off after %d of %d bytes", s.Name, n, size)
	}
	return z.data, nil
}
