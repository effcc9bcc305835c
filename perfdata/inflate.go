package perfdata

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// Windows of zstd: what its levels up to 19 use, and the largest of all, that of level 22.
const (
	smallWindow = 8 << 20
	largeWindow = 128 << 20
)

// maxInflated bounds what one record decompresses to. perf compresses what it finds in a ring at a time.
const maxInflated = 256 << 20

// windowFor is the largest window for a recording of so many bytes; -1 if that is not known. No more than 64 times as many bytes
// are expected to come out, so that a larger window, which costs as much memory, would not be filled.
func windowFor(size int64) uint64 {
	if size < 0 || size > largeWindow/64 {
		return largeWindow
	}
	return max(smallWindow, uint64(1)<<bits.Len64(uint64(size)*64))
}

// inflater decompresses what COMPRESSED records hold: one stream of zstd through all of them, of which the end is never written.
type inflater struct {
	window uint64
	in     []byte // not decompressed yet
	seen   int    // bytes of the frame's header that were decompressed
	next   func() (inflated, bool)
	stop   func()
}

// inflated is a piece of what comes out, of one block; nothing if there is no more without more input.
type inflated struct {
	b   []byte
	err error
}

// newInflater makes one that must be closed.
func newInflater(window uint64) *inflater {
	f := &inflater{window: window}
	f.next, f.stop = iter.Pull(f.run)
	return f
}

func (f *inflater) close() { f.stop() }

// read returns the next block, which is valid until the next call; nothing when all of f.in is used up.
func (f *inflater) read() ([]byte, error) {
	r, alive := f.next()
	if !alive {
		return nil, errors.New("nothing more can be decompressed after an error")
	}
	return r.b, r.err
}

// run is the decoder: it runs while next is waited for.
func (f *inflater) run(yield func(inflated) bool) {
	// Without concurrency the decoder asks for input only when it has given all that it can. It uses no other goroutine then.
	d, err := zstd.NewReader(&feed{f, yield}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(largeWindow), zstd.WithDecoderMaxMemory(1<<62))
	if err == nil {
		defer d.Close()
		_, err = d.WriteTo(sink(yield))
	}
	if err != nil && err != io.ErrClosedPipe {
		yield(inflated{err: fmt.Errorf("decompress: %w", err)})
	}
}

// sink takes what comes out of the decoder.
type sink func(inflated) bool

func (s sink) Write(b []byte) (int, error) {
	if !s(inflated{b: b}) {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// feed gives the decoder its input.
type feed struct {
	f     *inflater
	yield func(inflated) bool
}

func (r *feed) Read(b []byte) (int, error) {
	f := r.f
	for len(f.in) == 0 {
		if !r.yield(inflated{}) {
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(b, f.in)
	f.in = f.in[n:]
	f.limitWindow(b[:n])
	return n, nil
}

// limitWindow lowers the window that the frame's header asks for to the one that there may be: the decoder makes room for all of it at
// once. RFC 8878, 3.1.1.1: four bytes of magic number, the descriptor, and the window unless bit 5 of the descriptor says otherwise.
func (f *inflater) limitWindow(b []byte) {
	const descriptorAt, windowAt = 4, 5
	for i := 0; i < len(b) && f.seen <= windowAt; i++ {
		switch {
		case f.seen == descriptorAt && b[i]&(1<<5) != 0:
			f.seen = windowAt
		case f.seen == windowAt:
			const largest = 17 << 3 // largeWindow: 10 + 17 bits. The decoder refuses more.
			if limit := uint8(bits.Len64(f.window)-1-10) << 3; b[i] > limit && b[i] <= largest {
				b[i] = limit
			}
		}
		f.seen++
	}
}
