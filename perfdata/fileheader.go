package perfdata

import (
	"errors"
	"fmt"
	"io"
)

// Magic numbers: PERFILE2 in both byte orders, and the magic number of perf before 2.6.37.
const (
	magicLittle = "PERFILE2"
	magicBig    = "2ELIFREP"
	magicOld    = "PERFFILE"
)

// Sizes of struct perf_file_header with and without the bitmap of features, and of struct perf_pipe_file_header.
const (
	fileHeaderSize    = 104
	oldFileHeaderSize = 72
	pipeHeaderSize    = 16
)

// section is struct perf_file_section.
type section struct{ offset, size uint64 }

const sectionSize = 16

// within reports whether the whole section is inside of a file of size bytes.
func (s section) within(size int64) bool {
	return s.offset <= uint64(size) && s.size <= uint64(size)-s.offset
}

// decodeMagic decodes the first 16 bytes of a recording. It returns the byte order and the size of the header.
func decodeMagic(b []byte) (big bool, size uint64, err error) {
	switch magic := string(b[:8]); magic {
	case magicLittle:
	case magicBig:
		big = true
	case magicOld:
		return false, 0, errors.New("a file of perf before 2.6.37, whose format is not read")
	default:
		return false, 0, fmt.Errorf("it begins with %q and not with %q: no recording of perf", magic, magicLittle)
	}
	c := cursor{b: b[8:16], big: big}
	return big, c.u64(), nil
}

// IsRecording reports whether the first bytes of r are those of a recording: of a file or of the saved content of a pipe.
func IsRecording(r io.ReaderAt) bool {
	var magic [len(magicLittle)]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil {
		return false
	}
	return string(magic[:]) == magicLittle || string(magic[:]) == magicBig
}

// file is a perf.data file without its data.
type file struct {
	big       bool
	data      section
	events    eventList
	features  Features
	truncated bool        // the file is shorter than the header says
	missing   []FeatureID // features that lie outside of the file
	damaged   []error     // one error for each feature that cannot be read
	unclosed  bool        // the writer did not complete the header: the data end at the end of the file
}

// readFile reads a file except for its data.
func readFile(r io.ReaderAt, size int64) (*file, error) {
	var h [fileHeaderSize]byte
	n, err := r.ReadAt(h[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < pipeHeaderSize {
		return nil, fmt.Errorf("%d bytes are no recording of perf", n)
	}
	big, headerSize, err := decodeMagic(h[:])
	if err != nil {
		return nil, err
	}
	if headerSize != fileHeaderSize && headerSize != oldFileHeaderSize {
		return nil, fmt.Errorf("at 8: a header of %d bytes, not %d", headerSize, fileHeaderSize)
	}
	if uint64(n) < headerSize {
		return nil, fmt.Errorf("it ends in its header, after %d bytes", n)
	}
	f := &file{big: big, features: Features{big: big}}
	c := cursor{b: h[16:headerSize], big: big}
	attrSize := c.u64()
	attrs := section{c.u64(), c.u64()}
	f.data = section{c.u64(), c.u64()}
	c.u64() // event_types, not written since perf 3.1
	c.u64()
	if err := f.readEvents(r, size, attrs, attrSize); err != nil {
		return nil, err
	}
	if f.data.offset > uint64(size) {
		f.data = section{uint64(size), 0}
		f.truncated = true
	}
	var bits [4]uint64
	some := false
	for i := range bits {
		bits[i] = c.u64() // 0 if the header is the old one, without the bitmap
		some = some || bits[i] != 0
	}
	// A file whose writer was killed has no features, and may have more data than its header says.
	rest := uint64(size) - f.data.offset
	f.unclosed = f.data.size == 0 || !some && f.data.size <= rest
	if f.unclosed {
		f.data.size = rest
		return f, nil
	}
	if f.data.size > rest {
		f.data.size = rest
		f.truncated = true
		return f, nil
	}
	return f, f.readFeatures(r, size, bits)
}

// readEvents reads the attributes and the IDs of events.
func (f *file) readEvents(r io.ReaderAt, size int64, attrs section, attrSize uint64) error {
	if !attrs.within(size) {
		return fmt.Errorf("at 24: attributes of events of %d bytes at %d, outside of a file of %d", attrs.size, attrs.offset, size)
	}
	if attrSize < minAttrSize+sectionSize || attrSize > maxAttrSize {
		return fmt.Errorf("at 16: attributes of events of %d bytes each", attrSize)
	}
	all := make([]byte, attrs.size)
	if err := readFull(r, all, attrs.offset); err != nil {
		return err
	}
	left := uint64(size) // the IDs of all events together: they may not overlap
	for at := attrs.offset; uint64(len(all)) >= attrSize; at += attrSize {
		entry := all[:attrSize]
		all = all[attrSize:]
		own := entry[:attrSize-sectionSize]
		c := cursor{b: own[4:8], big: f.big}
		if n := uint64(c.u32()); n >= minAttrSize && n < uint64(len(own)) {
			own = own[:n]
		}
		attr, err := decodeAttr(own, f.big)
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		c = cursor{b: entry[attrSize-sectionSize:], big: f.big}
		ids := section{c.u64(), c.u64()}
		if !ids.within(size) || ids.size > left {
			return fmt.Errorf("at %d: IDs of an event of %d bytes at %d, in a file of %d", at, ids.size, ids.offset, size)
		}
		left -= ids.size
		b := make([]byte, ids.size)
		if err := readFull(r, b, ids.offset); err != nil {
			return err
		}
		c = cursor{b: b, big: f.big}
		f.events.add(attr, c.u64s(uint64(len(b)/8)))
	}
	return nil
}

// readFeatures reads the features whose bits are set. The table of their sections is after the data.
func (f *file) readFeatures(r io.ReaderAt, size int64, set [4]uint64) error {
	at := f.data.offset + f.data.size
	left := uint64(size) // all features together: they may not overlap
	for id := FeatureID(0); id < maxFeatures; id++ {
		if set[id/64]>>(id%64)&1 == 0 {
			continue
		}
		var entry [sectionSize]byte
		if at > uint64(size)-sectionSize {
			f.missing = append(f.missing, id)
			continue
		}
		if err := readFull(r, entry[:], at); err != nil {
			return err
		}
		c := cursor{b: entry[:], big: f.big}
		s := section{c.u64(), c.u64()}
		if !s.within(size) {
			f.missing = append(f.missing, id)
			at += sectionSize
			continue
		}
		if s.size > left {
			f.damaged = append(f.damaged, fmt.Errorf("at %d: feature %s: %d bytes, when there are %d in the file that no other feature has",
				at, id, s.size, left))
			at += sectionSize
			continue
		}
		at += sectionSize
		left -= s.size
		b := make([]byte, s.size)
		if err := readFull(r, b, s.offset); err != nil {
			return err
		}
		f.features = *f.features.with(id, b)
	}
	f.truncated = len(f.missing) > 0
	f.nameEvents()
	return nil
}

func (f *file) nameEvents() {
	v, err := f.features.Get(FeatureEventDesc)
	if err != nil {
		f.damaged = append(f.damaged, err)
	}
	if d, there := v.(EventDescriptions); there {
		f.events.name(d)
	}
}

func readFull(r io.ReaderAt, b []byte, at uint64) error {
	if n, err := r.ReadAt(b, int64(at)); n < len(b) {
		return fmt.Errorf("at %d: %w", at, err)
	}
	return nil
}
