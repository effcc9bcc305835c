package perfdata

import (
	"bytes"

	"github.com/klauspost/compress/zstd"
)

// inflatedPiece is how much is compressed at a time, so that no record decompresses to more, which is what perf makes room for.
const inflatedPiece = 512 << 10

// deflater makes COMPRESSED records: one stream of zstd through all of them, of which the end is not written.
type deflater struct {
	encoder *zstd.Encoder
	stream  bytes.Buffer // what the encoder gives
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

// records compresses a piece at once. The result is valid until the next call.
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
