package perfdata

import (
	"io"
	"maps"
	"slices"
)

// fileHeader has the fields of struct perf_file_header that are not constant.
type fileHeader struct {
	attrSize int
	attrs    section
	data     dataStart
}

// dataStart is the offset of the data section in a file; 0 for pipes.
type dataStart uint64

func (d dataStart) offset() int64 { return int64(d) }

// The smallest sizes of attributes that are written. perf refuses attributes longer than its own, so a Writer uses the smallest size that
// holds all fields that are set: at least that of Linux 4.1 in a file's section of attributes, at least that of Linux 5.13 in EVENT_DESC and
// in pipes. In pipes, perf before 6.4 assumes that attributes are as long as its own.
const (
	minFileAttrSize = 112 // PERF_ATTR_SIZE_VER5
	minPipeAttrSize = 128 // PERF_ATTR_SIZE_VER7
)

// attrSize returns the smallest size, at least least, that holds the fields set in the attributes of all events.
func attrSize(events []*Event, least int) int {
	for _, e := range events {
		least = e.Attr.sizeFrom(least)
	}
	return least
}

// sizeFrom returns the smallest size, at least least, that holds all fields that are set.
func (a *Attr) sizeFrom(least int) int {
	full := appendAttr(nil, a, AttrSize)
	for least < AttrSize && slices.ContainsFunc(full[least:], func(b byte) bool { return b != 0 }) {
		least += 8
	}
	return least
}

// layOut returns the header and front, the bytes before the data: the encoded header, the IDs and the attributes.
func layOut(events []*Event) (h fileHeader, front []byte) {
	size := attrSize(events, minFileAttrSize)
	h.attrSize = size + sectionSize
	at := uint64(fileHeaderSize)
	var ids, attrs []byte
	for _, e := range events {
		attrs = appendAttr(attrs, &e.Attr, size)
		attrs = appendU64(appendU64(attrs, at+uint64(len(ids))), uint64(8*len(e.IDs)))
		ids = appendU64s(ids, e.IDs)
	}
	h.attrs = section{at + uint64(len(ids)), uint64(len(attrs))}
	h.data = dataStart(h.attrs.offset + h.attrs.size)
	front = h.append(nil, 0, [4]uint64{})
	return h, append(append(front, ids...), attrs...)
}

// dataSizeAt is the offset of the size of the data in the file header.
const dataSizeAt = 48

func (h *fileHeader) append(b []byte, dataSize uint64, features [4]uint64) []byte {
	b = appendU64(append(b, magicLittle...), fileHeaderSize)
	b = appendU64(b, uint64(h.attrSize))
	b = appendU64(appendU64(b, h.attrs.offset), h.attrs.size)
	b = appendU64(appendU64(b, uint64(h.data)), dataSize)
	b = appendU64(appendU64(b, 0), 0)
	return appendU64s(b, features[:])
}

func (w *Writer) dataSize() uint64 { return uint64(max(w.written-w.header.data.offset(), 0)) }

// updateHeader writes the current size of the data to the header.
func (w *Writer) updateHeader() {
	f, can := w.file.(io.WriterAt)
	if !can || w.err != nil {
		return
	}
	if _, err := f.WriteAt(appendU64(nil, w.dataSize()), dataSizeAt); err != nil {
		w.err = err
	}
}

func (w *Writer) setOwnFeatures() {
	if _, set := w.features[FeatureEventDesc]; !set {
		var d EventDescriptions
		for _, e := range w.events {
			attr := e.Attr
			attr.Size = uint32(w.header.attrSize - sectionSize)
			d = append(d, EventDescription{Attr: attr, Name: e.Name, IDs: e.IDs})
		}
		w.features[FeatureEventDesc] = appendFeature(d)
	}
	if w.level > 0 {
		w.features[FeatureCompressed] = appendFeature(w.compression())
	}
}

// writeFeatures writes the table of feature sections after the data, and the features after the table. It returns the bitmap of features.
func (w *Writer) writeFeatures() (set [4]uint64, err error) {
	ids := slices.Sorted(maps.Keys(w.features))
	at := uint64(w.written) + uint64(len(ids))*sectionSize
	var table []byte
	for _, id := range ids {
		set[id/64] |= 1 << (id % 64)
		size := uint64(len(w.features[id]))
		table = appendU64(appendU64(table, at), size)
		at += size
	}
	if _, err := w.w.Write(table); err != nil {
		return set, err
	}
	for _, id := range ids {
		if _, err := w.w.Write(w.features[id]); err != nil {
			return set, err
		}
	}
	return set, nil
}

// writeHeader writes the complete header, then seeks back to the end of the file.
func (w *Writer) writeHeader(set [4]uint64) error {
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.file.Write(w.header.append(nil, w.dataSize(), set)); err != nil {
		return err
	}
	_, err := w.file.Seek(0, io.SeekEnd)
	return err
}

// cutOff truncates the file after its last complete record if it has a method Truncate, as *os.File does. It ignores an error: then readers
// report an error after the last record.
func (w *Writer) cutOff() {
	if f, can := w.file.(interface{ Truncate(size int64) error }); can {
		f.Truncate(w.written)
	}
}
