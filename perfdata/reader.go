package perfdata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Reader reads a recording. It is not safe for concurrent use.
type Reader struct {
	stream *stream
	front  []item // records that newReader has read
	failed error  // error of newReader; Batches reports it
	begun  bool
	pipe   bool
	data   section // where the records are in a file
	path   string
	file   *os.File
}

// Open opens the recording at path: a file, a pipe's content that was saved to a file, or a named pipe. It returns an error for a directory,
// which perf record --threads writes.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := open(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.path, r.file = path, f
	return r, nil
}

func open(f *os.File) (*Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, errors.New("a directory, as perf record --threads makes them, which is not read: record without --threads")
	case info.Mode().IsRegular():
		return NewReader(f, info.Size())
	default:
		return NewPipeReader(f)
	}
}

// NewReader returns a Reader of a complete recording of size bytes: a file of perf record -o, or the saved content of a pipe.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	var start [pipeHeaderSize]byte
	if n, err := r.ReadAt(start[:], 0); n < len(start) {
		if err == io.EOF {
			err = fmt.Errorf("%d bytes are no recording of perf", n)
		}
		return nil, err
	}
	_, headerSize, err := decodeMagic(start[:])
	if err != nil {
		return nil, err
	}
	if headerSize == pipeHeaderSize {
		return newPipeReader(io.NewSectionReader(r, 0, size), r, size)
	}
	f, err := readFile(r, size)
	if err != nil {
		return nil, err
	}
	if _, is := f.features.Raw(FeatureDirFormat); is {
		return nil, errors.New("part of a directory, as perf record --threads makes them, which is not read: record without --threads")
	}
	data := io.NewSectionReader(r, int64(f.data.offset), int64(f.data.size))
	s := newStream(data, r, int64(f.data.offset), size, f.big, f.events, &f.features)
	s.stats.truncated.Store(f.truncated || f.unclosed)
	s.stats.missing, s.stats.damaged = f.missing, f.damaged
	s.torn = f.unclosed
	reader := newReader(s)
	reader.data = f.data
	return reader, nil
}

// NewPipeReader returns a Reader of a pipe, as written by perf record -o -.
//
// Before it returns, it reads the events and features that precede the first record of the kernel.
func NewPipeReader(r io.Reader) (*Reader, error) { return newPipeReader(r, nil, -1) }

func newPipeReader(r io.Reader, again io.ReaderAt, size int64) (*Reader, error) {
	var start [pipeHeaderSize]byte
	if n, err := io.ReadFull(r, start[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%d bytes are no recording of perf", n)
		}
		return nil, err
	}
	big, headerSize, err := decodeMagic(start[:])
	if err != nil {
		return nil, err
	}
	if headerSize != pipeHeaderSize {
		return nil, errors.New("a file, which cannot be read from a pipe: give its name")
	}
	reader := newReader(newStream(r, again, pipeHeaderSize, size, big, eventList{}, &Features{big: big}))
	reader.pipe = true
	return reader, nil
}

// newReader returns a Reader and reads the head of the stream.
func newReader(s *stream) *Reader {
	r := &Reader{stream: s}
	s.head.only = true
	s.deliver = func(i item) { r.front = append(r.front, i) }
	s.pause = func() {}
	r.failed = s.run()
	s.head.only = false
	if r.failed == nil {
		_, r.failed = s.about.table(s.stats.bytes.Load())
	}
	return r
}

// Close releases the Reader. It closes the file if Open opened it.
func (r *Reader) Close() error {
	if !r.begun {
		r.begun = true
		r.stream.close()
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Unsorted makes Records and Batches return the records in the order of the file. Call it before either of them.
func (r *Reader) Unsorted() { r.stream.unsorted = true }

// Piped reports whether the recording was written to a pipe, even if its content was saved to a file.
func (r *Reader) Piped() bool { return r.pipe }

// Data returns the offset and the size of the records in the file, in bytes. Both are 0 for a pipe.
func (r *Reader) Data() (offset, size uint64) { return r.data.offset, r.data.size }

// Modified returns the time of the last change of the file. It is known only if Open opened the recording.
func (r *Reader) Modified() (at time.Time, known bool) {
	if r.file == nil {
		return at, false
	}
	info, err := r.file.Stat()
	if err != nil {
		return at, false
	}
	return info.ModTime(), true
}

// Owner returns the user ID of the file's owner. It is known only if Open opened the recording.
func (r *Reader) Owner() (uid uint32, known bool) {
	if r.file == nil {
		return 0, false
	}
	info, err := r.file.Stat()
	if err != nil {
		return 0, false
	}
	return info.Sys().(*syscall.Stat_t).Uid, true
}

// Events returns the events of the recording, in its order. While a pipe is read, events can be added, and an event can be replaced by a new
// one that has more properties and the same index.
func (r *Reader) Events() []*Event { return r.stream.about.tables.Load().events }

// EventByID returns the event with an ID, or nil. If several events have the ID, it is that of the first one. While a pipe is read, events
// can be added.
func (r *Reader) EventByID(id uint64) *Event { return r.stream.about.tables.Load().byID[id] }

// Features returns the features of the recording. While a pipe is read, features can be added.
func (r *Reader) Features() *Features { return r.stream.about.features.Load() }

// ByteOrder returns the byte order of the machine that made the recording. Record.Raw, Sample.Raw and Opaque features are in this byte order.
func (r *Reader) ByteOrder() binary.ByteOrder {
	if r.stream.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Stats returns statistics of what was read so far. They cover the whole recording when Records or Batches has ended.
func (r *Reader) Stats() Stats { return r.stream.stats.snapshot() }

// Records returns an iterator over all records in the order of time. Records with the same time, and records without a time, keep the order
// of the file. A record without a time comes before all records that wait for their round to finish, as in perf.
//
// Only one of Records and Batches can be iterated, and only once. The iterator ends after the first error, which names the offset in the
// file. A file that ends in the middle of a record is no error: Stats reports it as Truncated.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for batch, err := range r.Batches() {
			for i := range batch {
				if !yield(&batch[i], nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// maxWorkers bounds the goroutines that decode, and their memory. More would not help, because a single goroutine splits the file for them.
const maxWorkers = 16

// heldBatches is the number of batches whose records are valid at the same time.
const heldBatches = 3

// Batches returns an iterator over the same records as Records, several at a time, so that a caller can distribute them to all CPUs. The pair
// with the error can have records, too: those that precede the error. What is valid until the next iteration of Records is valid here for two
// more, so that a caller can work on three batches at once.
func (r *Reader) Batches() iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		if r.begun {
			yield(nil, errors.New("the records of a recording can be read once"))
			return
		}
		r.begun = true
		p := newPipeline(r.stream, min(runtime.GOMAXPROCS(0), maxWorkers))
		go p.split(r.front, r.failed)
		r.front = nil
		defer close(p.stop)
		var held []*batch // with valid records, the oldest first
		for b := range p.ordered {
			<-b.decoded
			if err := b.err; err != nil {
				yield(b.records, r.named(err))
				return
			}
			if len(b.records) > 0 && !yield(b.records, nil) {
				return
			}
			if held = append(held, b); len(held) == heldBatches {
				p.recycle(held[0])
				held = held[1:]
			}
		}
		if p.err != nil {
			yield(nil, r.named(p.err))
		}
	}
}

func (r *Reader) named(err error) error {
	if r.path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", r.path, err)
}

// pipeline reads records in three stages: one goroutine splits the stream and orders the records, several decode them, and the caller's
// goroutine returns them in order.
type pipeline struct {
	stream  *stream
	current *batch

	free    chan *batch
	work    chan *batch
	ordered chan *batch
	stop    chan struct{} // closed when the caller stops iterating
	err     error         // set before ordered is closed
}

func newPipeline(s *stream, workers int) *pipeline {
	n := workers + heldBatches
	p := &pipeline{stream: s, free: make(chan *batch, n), work: make(chan *batch, n), ordered: make(chan *batch, n),
		stop: make(chan struct{})}
	for range n {
		p.free <- &batch{decoded: make(chan struct{}, 1)}
	}
	for range workers {
		go p.decode()
	}
	return p
}

// errStopped ends the splitter after the caller has stopped iterating.
var errStopped = errors.New("stopped")

// split runs the splitter. Only its goroutine accesses p.current.
func (p *pipeline) split(front []item, failed error) {
	defer close(p.ordered)
	defer close(p.work)
	defer p.stream.close()
	p.stream.deliver = func(i item) {
		if p.current == nil && !p.next() {
			p.stream.r = stoppedReader{}
			return
		}
		p.current.items = append(p.current.items, i)
		p.current.bytes += int(i.size)
		if len(p.current.items) == batchSize || p.current.bytes >= batchBytes {
			p.flush()
		}
	}
	p.stream.pause = p.flush
	for _, i := range front {
		p.stream.deliver(i)
	}
	err := failed
	if err == nil {
		err = p.stream.run()
	}
	p.flush()
	if !errors.Is(err, errStopped) {
		p.err = err
	}
}

// stoppedReader replaces the stream's input after the caller has stopped iterating.
type stoppedReader struct{}

func (stoppedReader) Read([]byte) (int, error) { return 0, errStopped }

// next waits for a free batch and makes it the current one. It returns false if the caller has stopped iterating.
func (p *pipeline) next() bool {
	select {
	case p.current = <-p.free:
		return true
	case <-p.stop:
		return false
	}
}

func (p *pipeline) flush() {
	if p.current == nil {
		return
	}
	b := p.current
	p.current = nil
	p.work <- b
	p.ordered <- b
}

func (p *pipeline) decode() {
	for b := range p.work {
		b.decode(p.stream.about.tables.Load(), p.stream.big)
		b.decoded <- struct{}{}
	}
}

// recycle frees a batch and releases the chunks that its records are in.
func (p *pipeline) recycle(b *batch) {
	for from := 0; from < len(b.items); {
		c := b.items[from].chunk
		to := from + 1
		for to < len(b.items) && b.items[to].chunk == c {
			to++
		}
		p.stream.chunks.release(c, int64(to-from))
		from = to
	}
	b.reset()
	p.free <- b
}
