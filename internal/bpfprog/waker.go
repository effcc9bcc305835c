package bpfprog

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/target"
)

// waker waits for records, for CPUs that come and go, and for the end.
type waker struct {
	pipe    *os.File // has a byte for each change, and ends at the end
	changes chan target.CPUChange
	end     context.CancelFunc
	poll    []unix.PollFd
}

// forever is a time to wait that does not end.
const forever = time.Duration(-1)

// newWaker is to be closed, and the socket after it.
func newWaker(ctx context.Context, cpus target.CPUChanges) (*waker, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w := &waker{pipe: read, changes: make(chan target.CPUChange, 64)}
	ctx, w.end = context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { write.Close() })
	go func() {
		for change := range cpus.All() {
			select {
			case w.changes <- change:
				write.Write([]byte{0}) // it fails at the end
			case <-ctx.Done():
				return
			}
		}
	}()
	return w, nil
}

func (w *waker) close() {
	w.end()
	w.pipe.Close()
}

// change is the next change, if there is one.
func (w *waker) change() (target.CPUChange, bool) {
	select {
	case c := <-w.changes:
		return c, true
	default:
		return target.CPUChange{}, false
	}
}

// wait waits for a record in one of the rings, for a change, for the end, or for a time at most.
func (w *waker) wait(rings []*ring, most time.Duration) error {
	timeout := -1
	if most != forever {
		timeout = int(most.Milliseconds())
	}
	w.poll = append(w.poll[:0], unix.PollFd{Fd: int32(w.pipe.Fd()), Events: unix.POLLIN}) // its end is always waited for
	for _, r := range rings {
		w.poll = append(w.poll, unix.PollFd{Fd: int32(r.event.FD()), Events: unix.POLLIN})
	}
	if _, err := unix.Poll(w.poll, timeout); err != nil && err != unix.EINTR {
		return err
	}
	if w.poll[0].Revents&unix.POLLIN != 0 {
		var bytes [64]byte
		w.pipe.Read(bytes[:]) // there is one
	}
	return nil
}
