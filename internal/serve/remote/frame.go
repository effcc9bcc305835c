// Package remote runs sessions of bperf on a node for clients elsewhere: what clients may ask for, the stream of a session, and both its ends.
package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Stream is the number of a frame's stream.
type Stream byte

// The streams of a session.
const (
	Final  Stream = iota // the End of the session, as JSON: the last frame
	Stdout               // standard output of bperf on the node
	Stderr               // standard error
)

// maxFrame is the most bytes in a frame, without its header.
const maxFrame = 64 << 10

// frameHeader is the size of a frame's header: the stream, and the length of what follows as a big-endian number of 4 bytes.
const frameHeader = 5

// appendFrame appends a frame. The payload has at most maxFrame bytes.
func appendFrame(out []byte, stream Stream, payload []byte) []byte {
	out = append(out, byte(stream))
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	return append(out, payload...)
}

// frameReader reads frames.
type frameReader struct {
	from io.Reader
	buf  []byte
}

// errCut is the error of a stream that ends before the last frame.
var errCut = errors.New("the connection ended before the session did")

// next returns the next frame. The payload is valid until the next call.
func (r *frameReader) next() (Stream, []byte, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r.from, header[:]); err != nil {
		return 0, nil, cut(err)
	}
	stream, size := Stream(header[0]), binary.BigEndian.Uint32(header[1:])
	if stream > Stderr || size > maxFrame {
		return 0, nil, fmt.Errorf("the stream has a frame of %d bytes for stream %d: that is no session of bperf", size, stream)
	}
	if r.buf == nil {
		r.buf = make([]byte, maxFrame)
	}
	payload := r.buf[:size]
	if _, err := io.ReadFull(r.from, payload); err != nil {
		return 0, nil, cut(err)
	}
	return stream, payload, nil
}

// cut returns errCut for the end of a stream within a frame, or before the last frame.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// End is how a session ended.
type End struct {
	Status int    `json:"status"`           // exit status of bperf on the node; 128 plus the signal, if a signal ended it
	Reason string `json:"reason,omitempty"` // why the node ended the session; empty if it did not
}

// maxStatus is the highest exit status.
const maxStatus = 255

// parseEnd parses the payload of the last frame.
func parseEnd(payload []byte) (End, error) {
	var e End
	if err := json.Unmarshal(payload, &e); err != nil {
		return End{}, fmt.Errorf("the last frame of the session: %w", err)
	}
	if e.Status < 0 || e.Status > maxStatus {
		return End{}, fmt.Errorf("the last frame of the session has the exit status %d", e.Status)
	}
	return e, nil
}

// copyFrames copies the streams of a session until its end.
func copyFrames(from io.Reader, stdout, stderr io.Writer) (End, error) {
	frames := &frameReader{from: from}
	for {
		stream, payload, err := frames.next()
		if err != nil {
			return End{}, err
		}
		switch stream {
		case Final:
			return parseEnd(payload)
		case Stdout:
			_, err = stdout.Write(payload)
		case Stderr:
			_, err = stderr.Write(payload)
		}
		if err != nil {
			return End{}, err
		}
	}
}
