package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter waits until a ring has records to read.
type Waiter struct {
	epoll  int
	wake   int      // eventfd
	parked *os.File // epoll for Go's poller; nil before the first Park
}

// NewWaiter returns a Waiter without rings.
func NewWaiter() (*Waiter, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wait for records: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("wait for records: %w", err)
	}
	w := &Waiter{epoll: epoll, wake: wake}
	if err := w.AddFD(wake); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Add adds an event with a ring. If several events share the ring, add only the event that was mapped.
func (w *Waiter) Add(e *Event) error { return w.AddFD(e.fd) }

// AddFD adds a file descriptor. It is edge-triggered, because an event whose thread has ended stays ready for ever (POLLHUP).
func (w *Waiter) AddFD(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | 1<<31 /* EPOLLET */, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("wait for records: %w", err)
	}
	return nil
}

// Wait returns when a ring reaches its event's wakeup mark (WakeupEvents), when the thread of an event ends, after Wake, or after the
// timeout. ready is false after the timeout and after a signal. A negative timeout means no timeout. The calling thread waits in the kernel.
func (w *Waiter) Wait(timeout time.Duration) (ready bool, err error) {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout.Milliseconds())
	}
	return w.poll(ms)
}

// Park is like Wait, but leaves the wait to Go's poller. Calls must not be concurrent. After each wait of a thread in the kernel, Go's
// runtime watches its threads for some milliseconds, with dozens of system calls; Park spares these. Wait is better for a goroutine with
// a thread of its own, which Go's poller would have to wake, too.
func (w *Waiter) Park(timeout time.Duration) (ready bool, err error) {
	if ready, err = w.poll(0); ready || err != nil || timeout == 0 {
		return ready, err
	}
	if err := w.openParked(); err != nil {
		return false, err
	}
	var until time.Time
	if timeout > 0 {
		until = time.Now().Add(timeout)
	}
	if err := w.parked.SetReadDeadline(until); err != nil {
		return false, fmt.Errorf("wait for records: %w", err)
	}
	raw, err := w.parked.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("wait for records: %w", err)
	}
	var failed error
	err = raw.Read(func(uintptr) bool {
		ready, failed = w.poll(0)
		return ready || failed != nil
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false, fmt.Errorf("wait for records: %w", err)
	}
	return ready, failed
}

// openParked hands a copy of epoll to Go's poller.
func (w *Waiter) openParked() error {
	if w.parked != nil {
		return nil
	}
	fd, err := unix.FcntlInt(uintptr(w.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("wait for records: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // files that block are not polled
		unix.Close(fd)
		return fmt.Errorf("wait for records: %w", err)
	}
	w.parked = os.NewFile(uintptr(fd), "epoll")
	return nil
}

// poll is Wait with a timeout in milliseconds.
func (w *Waiter) poll(ms int) (ready bool, err error) {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(w.epoll, events[:], ms)
	if err == unix.EINTR {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for records: %w", err)
	}
	for _, e := range events[:n] {
		if int(e.Fd) == w.wake {
			var count [8]byte
			unix.Read(w.wake, count[:]) // EAGAIN if another Wait was faster
		}
	}
	return n > 0, nil
}

// Wake makes Wait or Park return. It may be called at any time before Close, also concurrently with these.
func (w *Waiter) Wake() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	unix.Write(w.wake, one) // can fail only if the counter is at its maximum, and then Wait returns anyway
}

// Close closes the Waiter. The events stay open.
func (w *Waiter) Close() error {
	unix.Close(w.wake)
	if w.parked != nil {
		w.parked.Close()
	}
	return unix.Close(w.epoll)
}
