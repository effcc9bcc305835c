package perfdata

import (
	"errors"
	"io"
)

// Options of a Writer.
type Options struct {
	Events   []*Event // with their IDs and names; Index is not looked at
	Compress int      // level of zstd, 1 to 22, as of perf record -z; 0 for none
	// PipeFeatures are written to the front of a pipe, as long as there are no records. Files get theirs from SetFeature.
	PipeFeatures map[FeatureID]FeatureValue
}

// Writer makes a recording. It is not safe for concurrent use.
type Writer struct {
}

// NewWriter begins a file, usually an *os.File that is empty. What was written before it was closed, or the process was killed, can be
// read; features are there when it is closed.
func NewWriter(f io.WriteSeeker, o Options) (*Writer, error) {
	return nil, errors.New("not implemented")
}

// NewPipeWriter begins what perf record -o - writes.
func NewPipeWriter(w io.Writer, o Options) (*Writer, error) {
	return nil, errors.New("not implemented")
}

// Append writes records that are encoded already, as they stand in a ring buffer: one after the other, with their headers, little-endian.
// They may be cut anywhere among the arguments, and must end with the last. Nothing of them is kept or copied, other than by compressing.
func (w *Writer) Append(records ...[]byte) error { return nil }

// Write encodes a record and writes it. misc has the CPU mode and what has no field in the value. Records of the kernel other than samples get
// the trailer that the first event says, of the value's SampleID; samples are those of Options.Events[0] unless their ID is that of another.
func (w *Writer) Write(misc Misc, v Value) error { return nil }

// SetFeature sets a feature of a file: it is written by Close. In a pipe it is written at once, as HEADER_FEATURE.
func (w *Writer) SetFeature(id FeatureID, v FeatureValue) error { return nil }

// Written is the number of bytes that records took, before and after compression.
func (w *Writer) Written() (before, after int64) { return 0, 0 }

// Close writes features and what a file needs in its header. It does not close what is below it.
func (w *Writer) Close() error { return nil }
