package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// untilEnd is done when a command that prints until it is told to end is told so: by a signal, or as nobody reads any more what it
// prints. Writing to a pipe without a reader fails then, instead of killing this process; see ended.
func untilEnd(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	if f, ok := out.(*os.File); ok {
		go func() {
			if waitHangup(f) {
				cancel()
			}
		}()
	}
	return ctx, func() { cancel(); stop() }
}

// ended is err, but nil if it only tells that nobody reads any more.
func ended(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// waitHangup waits until a pipe or a socket has no reader, or a terminal is gone. Of other files it is false at once.
func waitHangup(f *os.File) bool {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	defer syscall.Close(epoll)
	// EPOLLERR and EPOLLHUP are always waited for. A regular file cannot be.
	if syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, int(f.Fd()), &syscall.EpollEvent{}) != nil {
		return false
	}
	for {
		n, err := syscall.EpollWait(epoll, make([]syscall.EpollEvent, 1), -1)
		if err != syscall.EINTR {
			return err == nil && n > 0
		}
	}
}
