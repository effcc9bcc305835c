package perfdata

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
)

// Reader reads a recording. It is not safe for concurrent use.
type Reader struct {
	events   []*Event
	features Features
	close    func() error
}

// Stats is what was seen on the way through the records.
type Stats struct {
	Bytes       int64 // read of the file
	Records     map[RecordType]uint64
	Rounds      uint64 // FINISHED_ROUND
	OutOfOrder  uint64 // records that were older than one that was given before
	Undecodable uint64 // records of known types whose content is not right; they are given as *Unknown
	Truncated   bool   // the file ends in the middle of a record, or the writer did not get to close it
}

// Open opens a recording by its path: a file, a pipe that was written to a file, or a named pipe. A directory, as perf record --threads
// makes them, is refused.
func Open(path string) (*Reader, error) { return nil, errors.New("not implemented") }

// NewReader reads a recording of which all bytes are there: a file of perf record -o, or what was written to a pipe.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) { return nil, errors.New("not implemented") }

// NewPipeReader reads a recording as perf record -o - writes it to a pipe.
//
// Events and features that stand in front of the first record of the kernel are read at once.
func NewPipeReader(r io.Reader) (*Reader, error) { return nil, errors.New("not implemented") }

// Close ends reading, and closes the file if Open opened it.
func (r *Reader) Close() error { return r.close() }

// Events are those of the recording, in its order. In pipes there can be more of them as records are read.
func (r *Reader) Events() []*Event { return r.events }

// Features of the recording. In pipes there can be more of them as records are read.
func (r *Reader) Features() *Features { return &r.features }

// ByteOrder is that of the machine on which it was recorded: of Raw of samples and records, and of Opaque features.
func (r *Reader) ByteOrder() binary.ByteOrder { return binary.LittleEndian }

// Records gives all records in the order of time, those of the same time and those without a time in the order of the file. It can be
// called once. After an error, which names the place in the file, there is nothing more. A file that ends in the middle
// of a record gives none: it is in Stats.
//
// A record without time comes before all those that wait for a round to finish, as with perf.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for batch, err := range r.Batches() {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range batch {
				if !yield(&batch[i], nil) {
					return
				}
			}
		}
	}
}

// Batches gives the same records as Records, several at a time, for who wants to work on them on all CPUs.
func (r *Reader) Batches() iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {}
}

// Stats is what was seen up to now; of all of the recording when Records or Batches have ended.
func (r *Reader) Stats() Stats { return Stats{} }
