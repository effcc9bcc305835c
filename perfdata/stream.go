package perfdata

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// stream splits the data of a recording into records and puts them in order.
type stream struct {
	r     io.Reader
	again io.ReaderAt // the same data, for chunks that are read a second time; nil for pipes
	big   bool

	events   eventList
	tables   atomic.Pointer[table] // built from events
	features atomic.Pointer[Features]

	order   orderer
	deliver func(item) // called in the order in which the Reader returns records
	pause   func()     // called before a read that may block: delivered records must not wait for more
	last    uint64     // newest time of the delivered records

	chunk   *chunk // the current chunk
	at      int    // offset of the next record in chunk
	follow  int64  // remaining bytes after the last record that are no records
	formats []byte // formats of tracepoints, from these bytes
	collect bool   // these bytes are the formats of tracepoints
	ended   bool   // the input is at its end

	inflate  *inflater
	inflated *chunk
	inAt     int

	effort   int64  // IDs that went into tables so far
	window   uint64 // largest window for decompression
	torn     bool   // the writer was killed: the end may be zeros, allocated but never written
	headSize int    // number of records in the head
	head     bool   // read only the head: the records before the first record of the kernel

	chunks sync.Pool
	failed error // error of reading a chunk again
	stats  counters
}

func newStream(r io.Reader, again io.ReaderAt, offset, size int64, big bool, events eventList, f *Features) *stream {
	s := &stream{r: r, again: again, big: big, window: windowFor(size), events: events}
	s.tables.Store(newTable(nil))
	s.features.Store(f)
	s.chunks.New = func() any { return &chunk{memory: make([]byte, chunkSize)} }
	s.chunk = s.newChunk()
	s.chunk.base = offset
	s.order.emit = func(i item) {
		if !s.fetch(i.chunk) {
			return
		}
		if i.time < s.last {
			s.stats.outOfOrder.Add(1)
		}
		s.last = max(s.last, i.time)
		s.give(i)
	}
	return s
}

// give delivers a record.
func (s *stream) give(i item) {
	i.chunk.given = true
	s.deliver(i)
}

func (s *stream) newChunk() *chunk {
	c := s.chunks.Get().(*chunk)
	c.n, c.base, c.inner, c.given, c.added = 0, 0, false, false, 0
	c.refs.Store(held)
	return c
}

// maxResident bounds the bytes of waiting records that stay in memory. The stream frees chunks beyond it and reads them from the file again.
const maxResident = 1 << 20

// drop frees the memory of a chunk if all of its records wait for their round and the waiting records exceed maxResident.
func (s *stream) drop(c *chunk) {
	if s.again == nil || c.inner || c.given || c.added == 0 || s.order.bytes < maxResident {
		return
	}
	s.chunks.Put(&chunk{memory: c.memory})
	c.memory = nil
}

// fetch reads a chunk again if its memory was freed. It returns false if that fails, or if it failed before.
func (s *stream) fetch(c *chunk) bool {
	if c.memory != nil || s.failed != nil {
		return s.failed == nil
	}
	c.memory = s.chunks.Get().(*chunk).memory
	if _, err := s.again.ReadAt(c.memory[:c.n], c.base); err != nil {
		s.failed = fmt.Errorf("at %d, read again: %w", c.base, err)
	}
	return s.failed == nil
}

// done releases the splitter's own references of a chunk.
func (s *stream) done(c *chunk) { s.release(c, held-c.added) }

// release drops n references of a chunk.
func (s *stream) release(c *chunk, n int64) {
	if c.refs.Add(-n) == 0 {
		s.chunks.Put(c)
	}
}

// errHead ends run at the first record after the head.
var errHead = errors.New("the head ends here")

// run delivers the records of the stream up to its end or, with s.head, up to the end of the head. Even on an error it delivers all records
// that it has read.
func (s *stream) run() error {
	for {
		err := s.split()
		if err == errHead {
			return nil
		}
		if err == nil {
			err = s.failed
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
			return s.failed
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
		if s.at < c.n || s.follow > 0 {
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
	s.chunk = s.newChunk()
	s.chunk.base = old.base + int64(s.at)
	s.chunk.n = copy(s.chunk.memory, old.memory[s.at:old.n])
	s.at = 0
	s.drop(old)
	s.done(old)
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
		if s.head && (s.headSize == maxHead || !headRecords[s.recordType(c.memory[s.at:])]) {
			return errHead
		}
		i := item{chunk: c, at: uint32(s.at), size: uint32(size)}
		s.at += size
		s.headSize++
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
	if s.follow == 0 {
		return
	}
	n := int(min(s.follow, int64(s.chunk.n-s.at)))
	if s.collect {
		s.formats = append(s.formats, s.chunk.memory[s.at:s.at+n]...)
	}
	s.at += n
	s.follow -= int64(n)
	if s.follow == 0 && s.collect {
		s.features.Store(s.features.Load().with(FeatureTracingData, s.formats))
		s.formats, s.collect = nil, false
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
	table, err := s.table()
	if err != nil {
		return err
	}
	i.time = table.time(t, raw[recordHeaderSize:], s.big)
	if i.time == 0 || i.time == ^uint64(0) || table.unordered {
		s.give(i)
		return nil
	}
	s.order.add(i)
	return nil
}

// table returns a table of the current events.
func (s *stream) table() (*table, error) {
	if !s.events.changed {
		return s.tables.Load(), nil
	}
	// Building a table takes time in proportion to the number of IDs. A recording that needs more time for tables than for its data is
	// malicious or damaged.
	s.effort += int64(len(s.events.byID))
	if s.effort > 1<<20+4*s.stats.bytes.Load() {
		return nil, errors.New("events are added again and again between the records")
	}
	s.tables.Store(newTable(s.events.snapshot()))
	s.events.changed = false
	return s.tables.Load(), nil
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
		f := s.features.Load()
		all, _ := f.Raw(FeatureBuildID)
		s.features.Store(f.with(FeatureBuildID, append(all, i.raw()...)))
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
		s.events.add(v.Attr, v.IDs)
	case *EventUpdate:
		s.events.update(v)
	case *HeaderFeature:
		s.feature(v)
	case *Auxtrace:
		return s.passOver(i, v.Size)
	case *HeaderTracingData:
		s.collect = v.Size > 0
		return s.passOver(i, uint64(v.Size))
	}
	return nil
}

func (s *stream) feature(v *HeaderFeature) {
	if len(v.Data) == 0 && v.ID != FeatureBranchStack && v.ID != FeatureStat {
		return // marks the end of the features
	}
	s.features.Store(s.features.Load().with(v.ID, v.Data))
	if v.ID == FeatureEventDesc {
		d, err := decodeFeature(v.ID, v.Data, s.big, 0)
		if err != nil {
			s.stats.damage(err)
			return
		}
		s.events.name(d.(EventDescriptions))
	}
}

func (s *stream) passOver(i item, n uint64) error {
	if i.chunk.inner {
		return errors.New("what follows it cannot be inside of a compressed record")
	}
	if n > 1<<62 {
		return fmt.Errorf("%d bytes follow it", n)
	}
	s.follow = int64(n)
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
	if s.inflate == nil {
		s.inflate = newInflater(s.window)
		s.inflated = s.newChunk()
	}
	s.inflate.in = c.b
	// Records get the offset of the COMPRESSED record that completes them, even if they begin in an earlier one.
	base := i.chunk.offset(i.at)
	for total := 0; ; {
		b, err := s.inflate.read()
		if err != nil || len(b) == 0 {
			return err
		}
		s.makeRoom(base)
		dst := s.inflated
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
	old := s.inflated
	if old.base == base && len(old.memory)-old.n >= chunkSize/2 {
		return
	}
	c := s.newChunk()
	c.base, c.inner = base, true
	c.n = copy(c.memory, old.memory[s.inAt:old.n])
	s.inflated, s.inAt = c, 0
	s.done(old)
}

func (s *stream) splitInflated() error {
	c := s.inflated
	for s.inAt+recordHeaderSize <= c.n {
		size, err := s.size(c, s.inAt)
		if err != nil {
			return err
		}
		if s.inAt+size > c.n {
			return nil
		}
		i := item{chunk: c, at: uint32(s.inAt), size: uint32(size)}
		s.inAt += size
		if err := s.record(i); err != nil {
			return fmt.Errorf("in it %s: %w", s.recordType(i.raw()), err)
		}
	}
	return nil
}

func (s *stream) close() {
	if s.inflate != nil {
		s.inflate.close()
	}
}
