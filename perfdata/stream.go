package perfdata

import (
	"errors"
	"fmt"
	"io"
)

// stream splits the data of a recording into records and puts them in order.
type stream struct {
	r     io.Reader
	big   bool
	about description
	order orderer

	deliver func(item) // called in the order in which the Reader returns records
	pause   func()     // called before a read that may block: delivered records must not wait for more

	chunks   chunkStore
	chunk    *chunk // the current chunk
	at       int    // offset of the next record in chunk
	skipped  skipped
	inflated inflatedChunk
	head     head
	unsorted bool // deliver records in the order of the file
	torn     bool // the writer was killed: the end may be zeros, allocated but never written
	ended    bool // the input is at its end

	stats counters
}

// skipped are the bytes after a record that are no records.
type skipped struct {
	left    int64  // bytes that follow
	formats []byte // formats of tracepoints, from these bytes
	collect bool   // these bytes are the formats of tracepoints
}

// inflatedChunk is the current chunk of decompressed records.
type inflatedChunk struct {
	inflater *inflater // nil before the first COMPRESSED record
	window   uint64    // largest window for decompression
	chunk    *chunk
	at       int // offset of the next record in chunk
}

// head is the part of a recording before the first record of the kernel.
type head struct {
	only bool // read nothing else
	size int  // number of records
}

func newStream(r io.Reader, again io.ReaderAt, offset, size int64, big bool, events eventList, f *Features) *stream {
	s := &stream{r: r, big: big, about: description{events: events, big: big}, inflated: inflatedChunk{window: windowFor(size)}}
	s.about.tables.Store(newTable(nil))
	s.about.features.Store(f)
	s.chunks.again = again
	s.chunks.pool.New = func() any { return &chunk{memory: make([]byte, chunkSize)} }
	s.chunk = s.chunks.get()
	s.chunk.base = offset
	s.order.emit = func(i item, late bool) {
		if !s.chunks.fetch(i.chunk) {
			return
		}
		if late {
			s.stats.outOfOrder.Add(1)
		}
		s.give(i)
	}
	return s
}

// give delivers a record.
func (s *stream) give(i item) {
	i.chunk.given = true
	s.deliver(i)
}

// errHead ends run at the first record after the head.
var errHead = errors.New("the head ends here")

// run delivers the records of the stream up to its end or, with s.head.only, up to the end of the head. Even on an error it delivers all records
// that it has read.
func (s *stream) run() error {
	for {
		err := s.split()
		if err == errHead {
			return nil
		}
		if err == nil {
			err = s.chunks.failed
		}
		if err == nil {
			err = s.fill()
		}
		if err == nil {
			continue
		}
		s.order.end()
		s.pause()
		if err == io.EOF {
			return s.chunks.failed
		}
		return err
	}
}

// fill reads more input. It fills the current chunk before it begins another, because a read from a pipe may return a single record.
func (s *stream) fill() error {
	if s.ended {
		return io.EOF
	}
	s.pause()
	if s.chunk.n == len(s.chunk.memory) {
		s.turn()
	}
	c := s.chunk
	n, err := io.ReadAtLeast(s.r, c.memory[c.n:], 1)
	c.n += n
	s.stats.bytes.Add(int64(n))
	if err == io.EOF {
		s.ended = true
		if s.at < c.n || s.skipped.left > 0 {
			s.stats.truncated.Store(true)
		}
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("at %d: %w", c.base+int64(c.n), err)
	}
	return nil
}

// turn replaces the full chunk by a new one, to which it copies the rest that has not been split.
func (s *stream) turn() {
	old := s.chunk
	s.chunk = s.chunks.get()
	s.chunk.base = old.base + int64(s.at)
	s.chunk.n = copy(s.chunk.memory, old.memory[s.at:old.n])
	s.at = 0
	if s.order.bytes >= maxResident {
		s.chunks.drop(old)
	}
	s.chunks.done(old)
}

// split handles the complete records of the chunk.
func (s *stream) split() error {
	c := s.chunk
	for {
		s.skip()
		if s.at+recordHeaderSize > c.n {
			return nil
		}
		if s.torn && le.Uint64(c.memory[s.at:]) == 0 {
			s.ended = true
			s.at = c.n
			return nil
		}
		size, err := s.size(c, s.at)
		if err != nil {
			return err
		}
		if s.at+size > c.n {
			return nil
		}
		if s.head.only && (s.head.size == maxHead || !headRecords[s.recordType(c.memory[s.at:])]) {
			return errHead
		}
		i := item{chunk: c, at: uint32(s.at), size: uint32(size)}
		s.at += size
		s.head.size++
		if err := s.record(i); err != nil {
			return fmt.Errorf("at %d: %s: %w", i.chunk.offset(i.at), s.recordType(i.raw()), err)
		}
	}
}

// maxHead bounds the number of records that newReader reads.
const maxHead = 1 << 16

// headRecords are the types of records that describe the recording as a whole.
var headRecords = map[RecordType]bool{
	RecordHeaderAttr: true, RecordHeaderEventType: true, RecordHeaderTracingData: true, RecordHeaderBuildID: true,
	RecordEventUpdate: true, RecordHeaderFeature: true, RecordIDIndex: true, RecordTimeConv: true, RecordThreadMap: true,
	RecordCPUMap: true, RecordAuxtraceInfo: true,
}

// size returns the size of the record at an offset of a chunk.
func (s *stream) size(c *chunk, at int) (int, error) {
	h := cursor{b: c.memory[at+6 : at+8], big: s.big}
	size := int(h.u16())
	if size < recordHeaderSize {
		return 0, fmt.Errorf("at %d: a record of type %s says that it has %d bytes: less than its header", c.offset(uint32(at)),
			s.recordType(c.memory[at:]), size)
	}
	return size, nil
}

func (s *stream) recordType(b []byte) RecordType {
	h := cursor{b: b, big: s.big}
	return RecordType(h.u32())
}

// skip consumes the bytes after a record that are no records.
func (s *stream) skip() {
	if s.skipped.left == 0 {
		return
	}
	n := int(min(s.skipped.left, int64(s.chunk.n-s.at)))
	if s.skipped.collect {
		s.skipped.formats = append(s.skipped.formats, s.chunk.memory[s.at:s.at+n]...)
	}
	s.at += n
	s.skipped.left -= int64(n)
	if s.skipped.left == 0 && s.skipped.collect {
		s.about.set(FeatureTracingData, s.skipped.formats)
		s.skipped.formats, s.skipped.collect = nil, false
	}
}

// record handles one record: it delivers the record at once, or passes it to the orderer.
func (s *stream) record(i item) error {
	raw := i.raw()
	t := s.recordType(raw)
	s.stats.count(t)
	if t == RecordCompressed || t == RecordCompressed2 {
		return s.compressed(i, t)
	}
	i.chunk.added++
	if t >= firstUserRecord {
		s.give(i)
		return s.userRecord(i, t)
	}
	table, err := s.about.table(s.stats.bytes.Load())
	if err != nil {
		return err
	}
	i.time = table.time(t, raw[recordHeaderSize:], s.big)
	if i.time == 0 || i.time == ^uint64(0) || table.unordered || s.unsorted {
		s.give(i)
		return nil
	}
	s.order.add(i)
	return nil
}

// userRecord applies a record of perf itself to the stream: to its order, events and features.
func (s *stream) userRecord(i item, t RecordType) error {
	switch t {
	case RecordFinishedRound:
		s.stats.rounds.Add(1)
		s.order.round()
		return nil
	case RecordHeaderBuildID:
		// The feature is a sequence of these records.
		all, _ := s.about.features.Load().Raw(FeatureBuildID)
		s.about.set(FeatureBuildID, append(all, i.raw()...))
		return nil
	case RecordHeaderAttr, RecordEventUpdate, RecordHeaderFeature, RecordAuxtrace, RecordHeaderTracingData:
	default:
		return nil
	}
	v, err := decodeUserRecord(i.raw(), s.big)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case *HeaderAttr:
		s.about.events.add(v.Attr, v.IDs)
	case *EventUpdate:
		s.about.events.update(v)
	case *HeaderFeature:
		if err := s.about.feature(v); err != nil {
			s.stats.damage(err)
		}
	case *Auxtrace:
		return s.passOver(i, v.Size)
	case *HeaderTracingData:
		s.skipped.collect = v.Size > 0
		return s.passOver(i, uint64(v.Size))
	}
	return nil
}

func (s *stream) passOver(i item, n uint64) error {
	if i.chunk.inner {
		return errors.New("what follows it cannot be inside of a compressed record")
	}
	if n > 1<<62 {
		return fmt.Errorf("%d bytes follow it", n)
	}
	s.skipped.left = int64(n)
	return nil
}

// compressed handles the records in a COMPRESSED record.
func (s *stream) compressed(i item, t RecordType) error {
	if i.chunk.inner {
		return errors.New("it is inside of another")
	}
	c := cursor{b: i.raw()[recordHeaderSize:], big: s.big}
	if t == RecordCompressed2 { // the length of the data, which is padded to 8 bytes
		c.b = c.bytes(c.count(c.u64(), 1))
		if c.short {
			return errShort
		}
	}
	inflated := &s.inflated
	if inflated.inflater == nil {
		inflated.inflater = newInflater(inflated.window)
		inflated.chunk = s.chunks.get()
	}
	inflated.inflater.in = c.b
	// Records get the offset of the COMPRESSED record that completes them, even if they begin in an earlier one.
	base := i.chunk.offset(i.at)
	for total := 0; ; {
		b, err := inflated.inflater.read()
		if err != nil || len(b) == 0 {
			return err
		}
		s.makeRoom(base)
		dst := inflated.chunk
		dst.n += copy(dst.memory[dst.n:], b)
		if total += len(b); total > maxInflated {
			return fmt.Errorf("it decompresses to more than %d bytes", maxInflated)
		}
		if err := s.splitInflated(); err != nil {
			return err
		}
	}
}

// makeRoom begins a new chunk if base, the offset of the COMPRESSED record, has changed, or if the chunk may have no room for another block
// of zstd, which has at most 128 KiB.
func (s *stream) makeRoom(base int64) {
	old := s.inflated.chunk
	if old.base == base && len(old.memory)-old.n >= chunkSize/2 {
		return
	}
	c := s.chunks.get()
	c.base, c.inner = base, true
	c.n = copy(c.memory, old.memory[s.inflated.at:old.n])
	s.inflated.chunk, s.inflated.at = c, 0
	s.chunks.done(old)
}

func (s *stream) splitInflated() error {
	in := &s.inflated
	for in.at+recordHeaderSize <= in.chunk.n {
		size, err := s.size(in.chunk, in.at)
		if err != nil {
			return err
		}
		if in.at+size > in.chunk.n {
			return nil
		}
		i := item{chunk: in.chunk, at: uint32(in.at), size: uint32(size)}
		in.at += size
		if err := s.record(i); err != nil {
			return fmt.Errorf("in it %s: %w", s.recordType(i.raw()), err)
		}
	}
	return nil
}

func (s *stream) close() {
	if in := s.inflated.inflater; in != nil {
		in.close()
	}
}
