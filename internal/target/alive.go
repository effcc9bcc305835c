package target

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watch watches the processes and threads until stop is called. The channel is closed when none of them runs any more; it is
// nil if the target is the system, which does not end. A process whose first thread has ended runs as long as another one
// does; one that only waits to be reaped does not run.
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

// wait returns when a process (pidfd_open(2), Linux 5.3) or a thread (PIDFD_THREAD, Linux 6.9) has ended, or at the end of the
// context. Where the kernel has no descriptor to wait for, it looks from time to time.
func wait(ctx context.Context, id, flags int, s Spec) {
	fd, err := unix.PidfdOpen(id, flags|unix.PIDFD_NONBLOCK)
	if err != nil {
		s.poll(ctx)
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer context.AfterFunc(ctx, func() { f.Close() })()
	conn, err := f.SyscallConn()
	if err != nil { // it has been closed
		return
	}
	conn.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
	f.Close()
}

// poll returns when none of them is alive.
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
	for _, tid := range s.TIDs {
		if runs(root, fmt.Sprintf("proc/%d/task/%d", tid, tid)) {
			return true
		}
	}
	for _, pid := range s.PIDs {
		dir := fmt.Sprintf("proc/%d", pid)
		if runs(root, dir) {
			return true
		}
		tasks, _ := fs.ReadDir(root, dir+"/task") // none of a process that is gone
		for _, task := range tasks {
			if runs(root, dir+"/task/"+task.Name()) {
				return true
			}
		}
	}
	return s.System
}

// runs reports whether the task of this directory of /proc is neither gone nor a zombie: the state is the
// field behind the name, which is in parentheses (proc_pid_stat(5)).
func runs(root fs.FS, dir string) bool {
	stat, err := fs.ReadFile(root, dir+"/stat")
	if err != nil {
		return false
	}
	end := strings.LastIndexByte(string(stat), ')')
	fields := strings.Fields(string(stat[end+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}
