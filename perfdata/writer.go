package perfdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Options of a Writer.
type Options struct {
	Events   []*Event // with their IDs and names; Index and Attr.Size are not looked at
	Compress int      // level of zstd, 1 to 22, as of perf record -z: of what Append writes; 0 for none
	// StartFeatures are those that are known from the start. They are written to the front: of a pipe, and of a file, where they count as
	// long as it is not closed. A file that is closed has those of SetFeature alone.
	StartFeatures map[FeatureID]FeatureValue
}

// Writer makes a recording, of little-endian byte order. It is not safe for concurrent use.
//
// After an error nothing more is written, and all methods return it. What was written before it is a recording still, once Close has been
// called.
type Writer struct {
	w       io.Writer
	file    io.WriteSeeker // nil for pipes
	events  []*Event
	byID    map[uint64]*Event
	level   int
	deflate *deflater

	header   fileHeader
	front    int64 // bytes of features at the start of the data of a file, up to Close
	written  int64 // bytes of data, all of them of whole records
	raw      int64 // of them, those that Append was given
	pending  []byte
	features map[FeatureID][]byte
	err      error
	closed   bool
}

// maxRecord is what the size in a record's header can say.
const maxRecord = math.MaxUint16

// pendingSize is how much of what Write encodes is written at a time.
const pendingSize = 64 << 10

// NewWriter begins a file, usually an *os.File that is empty. What has been written when the process is killed can be read, with the
// events and their names; features are there when it is closed. If it is an io.WriterAt, too, each FinishedRound updates the header, so
// that perf reads a file that was not closed up to there.
func NewWriter(f io.WriteSeeker, o Options) (*Writer, error) {
	w, err := newWriter(f, o)
	if err != nil {
		return nil, err
	}
	w.file = f
	var front []byte
	w.header, front = layOut(w.events)
	w.put(front)
	for _, id := range slices.Sorted(maps.Keys(o.StartFeatures)) {
		if err := w.startFeature(id, o.StartFeatures[id]); err != nil && w.err != nil { // one that is too long for a record is left out
			return nil, err
		}
	}
	w.flush()
	w.front = w.written - w.header.data.offset()
	for _, e := range w.events {
		w.writeUpdates(e)
	}
	return w, w.Flush()
}

// NewPipeWriter begins what perf record -o - writes.
func NewPipeWriter(p io.Writer, o Options) (*Writer, error) {
	w, err := newWriter(p, o)
	if err != nil {
		return nil, err
	}
	w.put(appendU64([]byte(magicLittle), pipeHeaderSize))
	size := attrSize(w.events, minPipeAttrSize)
	for _, e := range w.events {
		attr := e.Attr
		attr.Size = uint32(size)
		w.write(0, &HeaderAttr{Attr: attr, IDs: e.IDs}, &Attr{})
		w.writeUpdates(e)
	}
	features := maps.Clone(o.StartFeatures)
	if features == nil {
		features = map[FeatureID]FeatureValue{}
	}
	if w.level > 0 {
		features[FeatureCompressed] = w.compression()
	}
	for _, id := range slices.Sorted(maps.Keys(features)) {
		if err := w.SetFeature(id, features[id]); err != nil {
			return nil, err
		}
	}
	return w, w.Flush()
}

func newWriter(out io.Writer, o Options) (*Writer, error) {
	if len(o.Events) == 0 {
		return nil, errors.New("a recording needs at least one event")
	}
	if o.Compress < 0 || o.Compress > 22 {
		return nil, fmt.Errorf("level %d of compression: zstd has 1 to 22", o.Compress)
	}
	w := &Writer{w: out, events: o.Events, byID: map[uint64]*Event{}, level: o.Compress, features: map[FeatureID][]byte{}}
	for _, e := range o.Events {
		for _, id := range e.IDs {
			w.byID[id] = e
		}
	}
	if o.Compress == 0 {
		return w, nil
	}
	var err error
	w.deflate, err = newDeflater(o.Compress)
	return w, err
}

// writeUpdates tells what HEADER_ATTR and the header of a file do not tell of an event. A file has a feature for the name, too, but not
// if the writer is killed.
func (w *Writer) writeUpdates(e *Event) {
	if len(e.IDs) == 0 {
		return
	}
	if e.Name != "" {
		w.write(0, &EventUpdate{Kind: EventUpdateName, ID: e.IDs[0], Name: e.Name}, &Attr{})
	}
	if e.Unit != "" {
		w.write(0, &EventUpdate{Kind: EventUpdateUnit, ID: e.IDs[0], Unit: e.Unit}, &Attr{})
	}
	if e.Scale != 0 {
		w.write(0, &EventUpdate{Kind: EventUpdateScale, ID: e.IDs[0], Scale: e.Scale}, &Attr{})
	}
	if e.CPUs != nil {
		w.write(0, &EventUpdate{Kind: EventUpdateCPUs, ID: e.IDs[0], CPUs: CPUMap{CPUs: e.CPUs}}, &Attr{})
	}
}

// Append writes records that are encoded already, as they stand in a ring buffer: one after the other, with their headers, little-endian.
// They may be cut anywhere among the arguments, and must end with the last. Nothing of them is kept or copied, other than by compressing.
func (w *Writer) Append(records ...[]byte) error {
	w.flush()
	for _, b := range records {
		w.raw += int64(len(b))
	}
	if w.deflate == nil {
		w.put(records...)
		return w.err
	}
	for _, b := range records {
		for piece := range slices.Chunk(b, inflatedPiece) {
			if w.err != nil {
				return w.err
			}
			compressed, err := w.deflate.records(piece)
			if err != nil {
				w.err = fmt.Errorf("compress: %w", err)
				return w.err
			}
			w.put(compressed)
		}
	}
	return w.err
}

// Write encodes a record and writes it, at the latest with the next FinishedRound, Append or Flush. misc has the CPU mode and what has no
// field in the value. Records of the kernel are those of the event that their SampleID names, which says what samples and the trailers of other
// records have; of the first event where it names none.
func (w *Writer) Write(misc Misc, v Value) error {
	attr := &w.events[0].Attr
	if r, is := v.(interface{ sampleID() *SampleID }); is {
		if e := w.byID[r.sampleID().ID]; e != nil {
			attr = &e.Attr
		}
	}
	w.write(misc, v, attr)
	if _, is := v.(*FinishedRound); is {
		w.flush()
		w.updateHeader()
	}
	return w.err
}

func (w *Writer) write(misc Misc, v Value, attr *Attr) {
	if w.err != nil {
		return
	}
	start := len(w.pending)
	b := appendRecord(w.pending, misc, v, attr)
	if size := len(b) - start; size > maxRecord {
		w.err = fmt.Errorf("a record of type %s would have %d bytes: at most %d can be written", v.RecordType(), size, maxRecord)
		return
	}
	if w.pending = b; len(b) >= pendingSize {
		w.flush()
	}
}

// Flush writes what has not been written yet.
func (w *Writer) Flush() error {
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if len(w.pending) > 0 {
		w.put(w.pending)
		w.pending = w.pending[:0]
	}
}

// put writes whole records, or what stands in front of them.
func (w *Writer) put(all ...[]byte) {
	n := int64(0)
	for _, b := range all {
		if w.err != nil {
			return
		}
		if _, err := w.w.Write(b); err != nil {
			w.err = fmt.Errorf("write the recording: %w", err)
			return
		}
		n += int64(len(b))
	}
	w.written += n
}

// SetFeature sets a feature of a file, which Close writes. In a pipe it is written at once, and cannot have more than 64 KiB, other than
// FeatureTracingData and FeatureBuildID.
func (w *Writer) SetFeature(id FeatureID, v FeatureValue) error {
	if w.err != nil {
		return w.err
	}
	if id == 0 || id >= maxFeatures {
		return fmt.Errorf("feature %d: there is room for 1 to %d", id, maxFeatures-1)
	}
	if w.file != nil {
		w.features[id] = appendFeature(v)
		return nil
	}
	return w.startFeature(id, v)
}

// startFeature writes a feature as a record, or several.
func (w *Writer) startFeature(id FeatureID, v FeatureValue) error {
	switch v := v.(type) {
	case TracingData:
		data := appendZeros(slices.Clone(v), roundUp(len(v), 8)-len(v))
		w.write(0, &HeaderTracingData{Size: uint32(len(data))}, &Attr{})
		w.flush()
		w.put(data)
	case BuildIDs:
		for i := range v {
			w.write(v[i].Misc, &v[i], &Attr{})
		}
	default:
		data := pipeFeature(v)
		if size := recordHeaderSize + 8 + len(data); size > maxRecord {
			return fmt.Errorf("feature %s has %d bytes: a pipe has room for %d", id, len(data), maxRecord-recordHeaderSize-8)
		}
		w.write(0, &HeaderFeature{ID: id, Data: data}, &Attr{})
	}
	return w.err
}

// pipeFeature is a feature, padded to 8 bytes as records should be.
func pipeFeature(v FeatureValue) []byte {
	b := appendFeature(v)
	if t, is := v.(CPUTopology); is && len(t.Dies) == 0 && len(b)%8 != 0 {
		// perf takes padding for a number of dies: give it one, and each CPU a die.
		b = appendU32(b, 0)
		for range t.CPUs {
			b = appendU32(b, 0)
		}
	}
	return appendZeros(b, roundUp(len(b), 8)-len(b))
}

// Written is the number of bytes that Append was given, and of bytes of data that were written.
func (w *Writer) Written() (appended, written int64) {
	return w.raw, w.written - w.header.data.offset()
}

// compression is the feature that tells how to decompress.
func (w *Writer) compression() Compression {
	c := Compression{Version: 1, Type: 1, Level: uint32(w.level), MmapLen: inflatedPiece}
	if w.deflate != nil && w.deflate.out > 0 {
		c.Ratio = uint32(math.Round(float64(w.deflate.in) / float64(w.deflate.out)))
	}
	return c
}

// Close writes features and what a file needs in its header. It does not close what is below it. The features EVENT_DESC and COMPRESSED
// need not have been set.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	w.flush()
	if w.deflate != nil {
		w.deflate.close()
	}
	if w.file == nil {
		return w.err
	}
	w.setOwnFeatures()
	w.header.data += dataStart(w.front)
	// If they find no room, the file is one without, which ends with its data.
	failed := w.err
	set := [4]uint64{}
	if failed == nil {
		if set, failed = w.writeFeatures(); failed != nil {
			set = [4]uint64{}
			failed = fmt.Errorf("write the features of the recording: %w", failed)
		}
	}
	if failed != nil {
		w.cutOff()
	}
	if err := w.writeHeader(set); failed == nil && err != nil {
		failed = fmt.Errorf("write the header of the recording: %w", err)
	}
	w.err = failed
	return w.err
}
