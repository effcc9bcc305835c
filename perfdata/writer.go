package perfdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Options configure a Writer.
type Options struct {
	Events   []*Event // at least one, with IDs and names; Index and Attr.Size are ignored
	Compress int      // zstd level, 1 to 22, for the records of Append, as perf record -z; 0: no compression
	// StartFeatures are the features that are known at the start. The Writer writes them at the front of a pipe or a file. In a file they are
	// valid only until Close: a closed file has only the features of SetFeature.
	StartFeatures map[FeatureID]FeatureValue
}

// Writer writes a recording, in little-endian byte order. It is not safe for concurrent use.
//
// After a write error a Writer writes nothing more, and its methods return the error. After Close, what it wrote before is still a valid
// recording.
type Writer struct {
	w       io.Writer
	file    io.WriteSeeker // nil for pipes
	events  []*Event
	byID    map[uint64]*Event
	level   int
	deflate *deflater

	header   fileHeader
	front    int64 // bytes of StartFeatures at the start of a file's data; Close excludes them from the data
	written  int64 // bytes written: the header and whole records
	raw      int64 // bytes of records that Append was given
	pending  []byte
	features map[FeatureID][]byte
	tooLong  []FeatureID // features that were left out of a pipe
	err      error
	closed   bool
}

// maxRecord is the largest size that fits into a record's header.
const maxRecord = math.MaxUint16

// pendingSize is the number of encoded bytes that Write buffers before it writes them.
const pendingSize = 64 << 10

// NewWriter returns a Writer of a file, usually an empty *os.File. If the process is killed, a Reader can read what was written, including
// the events and their names. Close writes the features. If f is also an io.WriterAt, each FinishedRound updates the header, so that perf
// can read an unclosed file up to its last finished round.
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
		if err := w.startFeature(id, o.StartFeatures[id]); err != nil {
			return nil, err
		}
	}
	w.flush()
	w.tooLong = nil // Close writes all features
	w.front = w.written - w.header.data.offset()
	for _, e := range w.events {
		w.writeUpdates(e)
	}
	return w, w.Flush()
}

// NewPipeWriter returns a Writer of a pipe, in the format of perf record -o -.
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

// writeUpdates writes EVENT_UPDATE records with the properties of an event that HEADER_ATTR and a file's header do not have. A file has the
// name in a feature, too, but only if Close is called.
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

// Append writes encoded records as they are in a ring buffer: consecutive, with their headers, little-endian. A record may be split across
// arguments, but the last argument must end with a whole record. Append does not keep the arguments, and copies them only to compress them.
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

// Write encodes and buffers a record. The next FinishedRound, Append or Flush writes it at the latest. misc has the CPU mode and the bits
// without a field in v. A kernel record belongs to the event with v's SampleID.ID, or to the first event if there is none. The event's
// attributes determine the fields of samples and trailers.
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

// Flush writes the buffered records.
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

// put writes whole records, or the bytes before the records.
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

// SetFeature sets a feature. In a file, Close writes it. In a pipe, SetFeature writes it at once. A feature other than FeatureTracingData and
// FeatureBuildID is one record there, of less than 64 KiB: SetFeature leaves out longer ones, as perf does, and LeftOut reports them.
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

// startFeature writes a feature as one or more records.
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
			w.tooLong = append(w.tooLong, id)
			return w.err
		}
		w.write(0, &HeaderFeature{ID: id, Data: data}, &Attr{})
	}
	return w.err
}

// LeftOut returns an error that names the features that were too long for a pipe, or nil.
func (w *Writer) LeftOut() error {
	if len(w.tooLong) == 0 {
		return nil
	}
	names := make([]string, len(w.tooLong))
	for i, id := range w.tooLong {
		names[i] = id.String()
	}
	slices.Sort(names)
	return fmt.Errorf("a pipe has no room for features of 64 KiB, and %d are left out: %s; record to a file", len(names),
		strings.Join(slices.Compact(names), ", "))
}

// pipeFeature encodes a feature, padded to a multiple of 8 bytes as records should be.
func pipeFeature(v FeatureValue) []byte {
	b := appendFeature(v)
	if t, is := v.(CPUTopology); is && len(t.Dies) == 0 && len(b)%8 != 0 {
		// perf would read the padding as a number of dies, so write a number of dies and a die for each CPU.
		b = appendU32(b, 0)
		for range t.CPUs {
			b = appendU32(b, 0)
		}
	}
	return appendZeros(b, roundUp(len(b), 8)-len(b))
}

// Written returns the number of bytes that were passed to Append, and the number of bytes of data that were written.
func (w *Writer) Written() (appended, written int64) {
	return w.raw, w.written - w.header.data.offset()
}

// compression returns the feature COMPRESSED.
func (w *Writer) compression() Compression {
	c := Compression{Version: 1, Type: 1, Level: uint32(w.level), MmapLen: inflatedPiece}
	if w.deflate != nil && w.deflate.out > 0 {
		c.Ratio = uint32(math.Round(float64(w.deflate.in) / float64(w.deflate.out)))
	}
	return c
}

// Close completes the recording: it writes buffered records and, in a file, the features and the header. It sets
// the feature EVENT_DESC unless SetFeature has set it, and the feature COMPRESSED if records are compressed. It does not close the
// underlying file or pipe. Close returns the first error of the Writer.
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
	// If there is no room for the features, the file has none and ends with its data.
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
