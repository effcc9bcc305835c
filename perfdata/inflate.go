package perfdata

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// Window sizes of zstd: smallWindow suffices for levels up to 19; largeWindow is that of level 22, the largest.
const (
	smallWindow = 8 << 20
	largeWindow = 128 << 20
)

// maxInflated bounds the decompressed size of one record. perf compresses the unread part of one ring at a time.
const maxInflated = 256 << 20

// windowFor returns the largest window for a recording of size bytes; size is -1 if unknown. It assumes that a recording decompresses to at
// most 64 times its size: a larger window would cost memory and never fill.
func windowFor(size int64) uint64 {
	if size < 0 || size > largeWindow/64 {
		return largeWindow
	}
	return max(smallWindow, uint64(1)<<bits.Len64(uint64(size)*64))
}

// inflater decompresses COMPRESSED records. All of them together hold one zstd stream, whose end is never written.
type inflater struct {
	window uint64
	in     []byte // input that the decoder has not read
	seen   int    // bytes of the frame's header that the decoder has read
	next   func() (inflated, bool)
	stop   func()
}

// inflated is the output of one block. It is empty if the decoder needs more input.
type inflated struct {
	b   []byte
	err error
}

// newInflater returns an inflater, which the caller must close.
func newInflater(window uint64) *inflater {
	f := &inflater{window: window}
	f.next, f.stop = iter.Pull(f.run)
	return f
}

func (f *inflater) close() { f.stop() }

// read returns the next block, valid until the next call. It returns nothing when the decoder has used up f.in.
func (f *inflater) read() ([]byte, error) {
	r, alive := f.next()
	if !alive {
		return nil, errors.New("nothing more can be decompressed after an error")
	}
	return r.b, r.err
}

// run runs the decoder. As a coroutine (iter.Pull) it runs only during a call of next.
func (f *inflater) run(yield func(inflated) bool) {
	// With a concurrency of 1 the decoder starts no goroutine, and reads input only after it has written all the output it can.
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

// sink receives the decoder's output.
type sink func(inflated) bool

func (s sink) Write(b []byte) (int, error) {
	if !s(inflated{b: b}) {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// feed is the decoder's input.
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

// limitWindow lowers the window size in the frame's header to f.window, because the decoder allocates the whole window at once. The header
// has four bytes of magic number, the descriptor and, unless bit 5 of the descriptor is set, the window size (RFC 8878, 3.1.1.1).
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
