package perfdata

import (
	"io"
	"maps"
	"slices"
)

// fileHeader is struct perf_file_header, as far as it is not known beforehand.
type fileHeader struct {
	attrSize int
	attrs    section
	data     dataStart
}

// dataStart is where the data of a file begin; 0 in pipes.
type dataStart uint64

func (d dataStart) offset() int64 { return int64(d) }

// Sizes of attributes. perf refuses those that are longer than it knows, so that they are written as short as they can be: from that of
// Linux 4.1 on; in pipes, where perf before 6.4 takes them to be as long as its own, and in EVENT_DESC, from that of Linux 5.13 on.
const (
	minFileAttrSize = 112 // PERF_ATTR_SIZE_VER5
	minPipeAttrSize = 128 // PERF_ATTR_SIZE_VER7
)

// attrSize is the size that has room for what is set in the attributes of all events.
func attrSize(events []*Event, least int) int {
	for _, e := range events {
		least = e.Attr.sizeFrom(least)
	}
	return least
}

// sizeFrom is the size, from least on, that has room for what is set.
func (a *Attr) sizeFrom(least int) int {
	full := appendAttr(nil, a, AttrSize)
	for least < AttrSize && slices.ContainsFunc(full[least:], func(b byte) bool { return b != 0 }) {
		least += 8
	}
	return least
}

// layOut returns what stands in front of the data: the header, IDs and attributes.
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

// dataSizeAt is where the header has the size of the data.
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

// updateHeader lets the header tell how much there is.
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

// writeFeatures writes the list of sections behind the data, and the features behind it.
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

// writeHeader completes the header. The end of the file is where writing goes on.
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

// cutOff lets the file end with the last complete record, if it can be cut off, as an *os.File can. If that fails, too, there is nothing
// to be done: what is behind the record is an error for readers.
func (w *Writer) cutOff() {
	if f, can := w.file.(interface{ Truncate(size int64) error }); can {
		f.Truncate(w.written)
	}
}
