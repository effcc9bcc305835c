package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// untilEnd returns a context that ends at a signal, or when out has no reader any more. It is for commands that print until they are
// stopped. From now on, writing to a pipe without a reader fails with EPIPE instead of killing this process; see ended.
func untilEnd(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	if f, ok := out.(interface{ Fd() uintptr }); ok {
		go func() {
			if waitHangup(int(f.Fd())) {
				cancel()
			}
		}()
	}
	return ctx, func() { cancel(); stop() }
}

// ended returns err, or nil if err only means that the output has no reader.
func ended(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// waitHangup returns true when a pipe or a socket has lost its reader, or a terminal is gone. For other files it returns false at once.
func waitHangup(fd int) bool {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	defer syscall.Close(epoll)
	// EPOLLERR and EPOLLHUP are always reported. A regular file cannot be added.
	if syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{}) != nil {
		return false
	}
	for {
		n, err := syscall.EpollWait(epoll, make([]syscall.EpollEvent, 1), -1)
		if err != syscall.EINTR {
			return err == nil && n > 0
		}
	}
}

// printIntervals calls write at the end of each interval and prints the result with one write, until the context is done or count intervals
// are printed. what names the output in errors.
func printIntervals(ctx context.Context, w io.Writer, what string, interval time.Duration, count int, write func(b *bytes.Buffer, first bool) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var b bytes.Buffer
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		b.Reset()
		if err := write(&b, n == 1); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return fmt.Errorf("print %s: %w", what, err)
		}
		if n == count {
			return nil
		}
	}
}

// printOnce makes a command that reads several recordings print each message once: they often have the same problem.
func printOnce(cmd *cobra.Command) {
	cmd.SetErr(&distinctWriter{to: cmd.ErrOrStderr(), written: make(map[string]bool)})
}

// distinctWriter writes each message once.
type distinctWriter struct {
	to      io.Writer
	written map[string]bool
}

func (w *distinctWriter) Write(message []byte) (int, error) {
	if w.written[string(message)] {
		return len(message), nil
	}
	w.written[string(message)] = true
	return w.to.Write(message)
}

// toStdout reports whether the value of -o means standard output.
func toStdout(path string) bool { return path == "" || path == "-" }

// writeOutput calls write with a buffer for the file of -o, or for standard output.
func writeOutput(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	out := cmd.OutOrStdout()
	end := func() error { return nil }
	if !toStdout(path) {
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		out, end = file, file.Close
	}
	b := bufio.NewWriter(out)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	if ended := end(); err == nil {
		err = ended
	}
	return err
}
