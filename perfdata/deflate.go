package perfdata

import (
	"bytes"

	"github.com/klauspost/compress/zstd"
)

// inflatedPiece is the number of bytes that deflater compresses at a time. No record decompresses to more. Compression.MmapLen announces
// the size, and perf allocates a buffer of it.
const inflatedPiece = 512 << 10

// deflater makes COMPRESSED records. All of them together hold one zstd stream, whose end is never written.
type deflater struct {
	encoder *zstd.Encoder
	stream  bytes.Buffer // output of the encoder
	out, in int64        // bytes
	b       []byte
}

func newDeflater(level int) (*deflater, error) {
	d := &deflater{}
	var err error
	d.encoder, err = zstd.NewWriter(&d.stream, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	return d, err
}

// records compresses a piece into COMPRESSED records. The result is valid until the next call.
func (d *deflater) records(piece []byte) ([]byte, error) {
	d.stream.Reset()
	if _, err := d.encoder.Write(piece); err != nil {
		return nil, err
	}
	if err := d.encoder.Flush(); err != nil {
		return nil, err
	}
	d.in += int64(len(piece))
	d.out += int64(d.stream.Len())
	d.b = d.b[:0]
	for part := d.stream.Next(maxRecord - recordHeaderSize); len(part) > 0; part = d.stream.Next(maxRecord - recordHeaderSize) {
		start := len(d.b)
		d.b = append(appendRecordHeader(d.b, RecordCompressed), part...)
		endRecord(d.b, start, 0)
	}
	return d.b, nil
}

func (d *deflater) close() { d.encoder.Close() }
