package perfdata

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// stream takes the records of a recording apart and puts them in order.
type stream struct {
	r     io.Reader
	again io.ReaderAt // the same, for what is read a second time; nil for pipes
	big   bool

	events   eventList
	tables   atomic.Pointer[table] // made of events
	features atomic.Pointer[Features]

	order   orderer
	deliver func(item) // in the order in which they are given to the user
	pause   func()     // what was delivered must not wait for more, as more may not come soon
	last    uint64     // time of the last that was delivered

	chunk   *chunk // in work
	at      int    // in chunk
	follow  int64  // bytes that follow the last record and are none
	formats []byte // of follow, when they are the formats of tracepoints
	collect bool   // formats
	ended   bool   // by an end of file

	inflate  *inflater
	inflated *chunk
	inAt     int

	effort   int64  // that went into tables
	window   uint64 // largest, for decompression
	torn     bool   // the writer was killed: zeros may be at the end, where room was made but nothing written
	headSize int    // records of it
	head     bool   // only what stands in front of the first record of the kernel

	chunks sync.Pool
	failed error // to read again
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

// maxResident is how many bytes of records that wait for their round to finish are kept in memory. More of them are read from the file again.
const maxResident = 1 << 20

// drop gives the memory of a chunk back of which all records wait, if there are many.
func (s *stream) drop(c *chunk) {
	if s.again == nil || c.inner || c.given || c.added == 0 || s.order.bytes < maxResident {
		return
	}
	s.chunks.Put(&chunk{memory: c.memory})
	c.memory = nil
}

// fetch reads a chunk again if its memory was given back; false if that is not possible, or was not before.
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

// done ends the splitter's own hold of a chunk.
func (s *stream) done(c *chunk) { s.release(c, held-c.added) }

// release gives back n references of a chunk.
func (s *stream) release(c *chunk, n int64) {
	if c.refs.Add(-n) == 0 {
		s.chunks.Put(c)
	}
}

// errHead ends the part of the stream that stands in front of the first record of the kernel.
var errHead = errors.New("the head ends here")

// run goes through the stream up to its end, or that of the head. What it could read is delivered in any case.
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

// fill reads on. It fills the chunk in work first: of a pipe, each record may come by itself.
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

// turn begins a new chunk with what has not been looked at in the one that is full.
func (s *stream) turn() {
	old := s.chunk
	s.chunk = s.newChunk()
	s.chunk.base = old.base + int64(s.at)
	s.chunk.n = copy(s.chunk.memory, old.memory[s.at:old.n])
	s.at = 0
	s.drop(old)
	s.done(old)
}

// split goes through the records of the chunk.
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

// maxHead bounds how many records are read before anybody asks for them.
const maxHead = 1 << 16

// headRecords tell of the recording as a whole.
var headRecords = map[RecordType]bool{
	RecordHeaderAttr: true, RecordHeaderEventType: true, RecordHeaderTracingData: true, RecordHeaderBuildID: true,
	RecordEventUpdate: true, RecordHeaderFeature: true, RecordIDIndex: true, RecordTimeConv: true, RecordThreadMap: true,
	RecordCPUMap: true, RecordAuxtraceInfo: true,
}

// size is that of the record there.
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

// skip passes over what follows a record and is none.
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

// record looks at one record, and delivers it or puts it in order.
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

// table finds the events that there are now.
func (s *stream) table() (*table, error) {
	if !s.events.changed {
		return s.tables.Load(), nil
	}
	// Each change costs as much as there are IDs. This is no recording if that comes to more than the recording itself.
	s.effort += int64(len(s.events.byID))
	if s.effort > 1<<20+4*s.stats.bytes.Load() {
		return nil, errors.New("events are added again and again between the records")
	}
	s.tables.Store(newTable(s.events.snapshot()))
	s.events.changed = false
	return s.tables.Load(), nil
}

// userRecord does what a record of perf's own says about the stream.
func (s *stream) userRecord(i item, t RecordType) error {
	switch t {
	case RecordFinishedRound:
		s.stats.rounds.Add(1)
		s.order.round()
		return nil
	case RecordHeaderBuildID:
		// The records are what the feature consists of.
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
		return // marks the end of them
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

// compressed goes through the records that one holds.
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
	// Records that begin here are said to be here, even where the record around their start was another.
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

// makeRoom goes on with another chunk, for the records of another place in the file, or as the last may have no room for a block of zstd,
// which has 128 KiB at most.
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
