package target

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// Watch watches the processes and threads until stop is called. It closes the channel when none of them runs any more. The channel is nil
// if the target is the system, which does not end. A process runs as long as one of its threads does, even if the first one has ended. A
// process that only waits to be reaped does not run.
func (s Spec) Watch() (ended <-chan struct{}, stop func()) {
	if s.System {
		return nil, func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, pid := range s.PIDs {
		all.Go(func() { wait(ctx, pid, 0, Spec{PIDs: []int{pid}}) })
	}
	for _, tid := range s.TIDs {
		all.Go(func() { wait(ctx, tid, unix.PIDFD_THREAD, Spec{TIDs: []int{tid}}) })
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		if ctx.Err() == nil {
			close(over)
		}
	}()
	return over, stop
}

// wait returns when a process (pidfd_open(2), Linux 5.3) or a thread (PIDFD_THREAD, Linux 6.9) has ended, or when the context ends. If the
// kernel has no such descriptor, it polls.
func wait(ctx context.Context, id, flags int, s Spec) {
	fd, err := unix.PidfdOpen(id, flags|unix.PIDFD_NONBLOCK)
	if err != nil {
		s.poll(ctx)
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer context.AfterFunc(ctx, func() { f.Close() })()
	conn, err := f.SyscallConn()
	if err != nil { // the context closed it
		return
	}
	conn.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
	f.Close()
}

// poll returns when no process or thread of s is alive.
func (s Spec) poll(ctx context.Context) {
	const pause = 100 * time.Millisecond
	t := time.NewTicker(pause)
	defer t.Stop()
	for s.alive(os.DirFS("/")) {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s Spec) alive(root fs.FS) bool {
	proc := procfs.Proc(root)
	for _, tid := range s.TIDs {
		if runs(proc, fmt.Sprintf("%d/task/%[1]d", tid)) {
			return true
		}
	}
	for _, pid := range s.PIDs {
		if runs(proc, strconv.Itoa(pid)) {
			return true
		}
		tids, _ := procfs.Threads(proc, pid) // an ended process has none
		for _, tid := range tids {
			if runs(proc, fmt.Sprintf("%d/task/%d", pid, tid)) {
				return true
			}
		}
	}
	return s.System
}

// runs reports whether a task exists and has not ended.
func runs(proc fs.FS, task string) bool {
	stat, err := procfs.ReadTaskStat(proc, task)
	return err == nil && !stat.Ended()
}
