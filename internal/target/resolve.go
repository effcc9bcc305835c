package target

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/bperf/bperf/internal/procfs"
)

// Spec selects who is measured, as the user wrote it. Processes and threads (PIDs, TIDs, User) cannot be combined with the rest. Cgroups
// are counted on the CPUs that System and CPUs select.
type Spec struct {
	System  bool   // all online CPUs
	Threads bool   // with System: all existing threads instead of the CPUs
	CPUs    []int  // only these CPUs; nil if the user named none
	PIDs    []int  // processes, with all their threads
	TIDs    []int  // single threads
	User    string // name or ID: all processes with this effective user; empty for none
	Cgroups []string

	ThreadNames bool // read each thread's own name, not only that of its process
}

// Nobody reports whether the user named no target. Then the command is measured, if there is one. With a target, a command only sets how
// long the target is measured.
func (s Spec) Nobody() bool {
	return !s.System && s.CPUs == nil && !s.tasks() && len(s.Cgroups) == 0
}

// Resolve looks the target up on this machine: online CPUs, living threads, directories of cgroups. Anything that does not exist is an
// error, a *ResolveError. CPUs that are only offline are listed in Target.Offline, as long as one online CPU is left.
func (s Spec) Resolve() (Target, error) {
	t, err := s.resolve(os.DirFS("/"))
	if err != nil {
		return Target{}, &ResolveError{err}
	}
	return t, nil
}

// ResolveError says what is wrong with a target.
type ResolveError struct{ Err error }

func (e *ResolveError) Error() string { return e.Err.Error() }

func (e *ResolveError) Unwrap() error { return e.Err }

func (s Spec) resolve(root fs.FS) (Target, error) {
	if s.System && s.Threads {
		return s.resolveAllThreads(root)
	}
	if s.tasks() {
		if s.System || s.CPUs != nil || len(s.Cgroups) > 0 {
			return Target{}, errors.New("processes and threads cannot be measured together with CPUs or cgroups")
		}
		return s.resolveThreads(root)
	}
	if !s.System && s.CPUs == nil {
		if len(s.Cgroups) > 0 {
			return Target{}, errors.New("cgroups are measured on CPUs: add -a or -C")
		}
		return Target{}, errors.New("there is nothing to measure: no CPU, process, thread or cgroup is given")
	}
	t, err := s.resolveCPUs(root)
	if err != nil {
		return Target{}, err
	}
	t.Cgroups, err = resolveCgroups(root, s.Cgroups)
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

func (s Spec) resolveCPUs(root fs.FS) (Target, error) {
	online, err := procfs.CPUs(procfs.Sys(root), "online")
	if err != nil {
		return Target{}, err
	}
	if s.CPUs == nil {
		return Target{CPUs: online}, nil
	}
	present, err := procfs.CPUs(procfs.Sys(root), "present")
	if err != nil {
		return Target{}, err
	}
	var t Target
	for _, cpu := range slices.Sorted(slices.Values(s.CPUs)) {
		switch {
		case slices.Contains(online, cpu):
			t.CPUs = append(t.CPUs, cpu)
		case slices.Contains(present, cpu):
			t.Offline = append(t.Offline, cpu)
		default:
			return Target{}, fmt.Errorf("CPU %d does not exist: this machine has %s", cpu, procfs.FormatCPUList(present))
		}
	}
	if len(t.CPUs) == 0 {
		return Target{}, fmt.Errorf("the CPUs %s are all offline", procfs.FormatCPUList(t.Offline))
	}
	return t, nil
}

// resolveAllThreads lists the threads of all processes, without those that end while it reads.
func (s Spec) resolveAllThreads(root fs.FS) (Target, error) {
	pids, err := procfs.Processes(procfs.Proc(root))
	if err != nil {
		return Target{}, fmt.Errorf("list the processes: %w", err)
	}
	var t Target
	for _, pid := range pids {
		if threads, err := s.processThreads(root, pid); err == nil {
			t.Threads = append(t.Threads, threads...)
		}
	}
	return t, nil
}

// tasks reports whether processes or threads are measured.
func (s Spec) tasks() bool { return len(s.PIDs)+len(s.TIDs) > 0 || s.User != "" }

func (s Spec) resolveThreads(root fs.FS) (Target, error) {
	threads, err := s.userThreads(root)
	if err != nil {
		return Target{}, err
	}
	for _, pid := range s.PIDs {
		of, err := s.processThreads(root, pid)
		if err != nil {
			return Target{}, err
		}
		threads = append(threads, of...)
	}
	for _, tid := range s.TIDs {
		thread, err := findThread(root, tid)
		if err != nil {
			return Target{}, err
		}
		threads = append(threads, thread)
	}
	slices.SortStableFunc(threads, func(a, b Thread) int { return cmp.Compare(a.TID, b.TID) })
	threads = slices.CompactFunc(threads, func(a, b Thread) bool { return a.TID == b.TID })
	return Target{Threads: threads}, nil
}

// userThreads lists the threads of the user's processes. It is an error if there are none.
func (s Spec) userThreads(root fs.FS) (threads []Thread, err error) {
	if s.User == "" {
		return nil, nil
	}
	pids, err := processesOf(root, s.User)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		of, err := s.processThreads(root, pid)
		if _, ended := fs.Stat(root, fmt.Sprintf("proc/%d/task", pid)); err != nil && !procfs.Ended(ended) {
			return nil, err
		}
		threads = append(threads, of...)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("the user %s has no processes", s.User)
	}
	return threads, nil
}

// processThreads lists the threads of a process, without those that end while it reads.
func (s Spec) processThreads(root fs.FS, pid int) ([]Thread, error) {
	proc := procfs.Proc(root)
	tids, err := procfs.Threads(proc, pid)
	if procfs.Ended(err) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	comm, err := procfs.Comm(proc, strconv.Itoa(pid))
	if procfs.Ended(err) {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	if err != nil {
		return nil, fmt.Errorf("read the name of process %d: %w", pid, err)
	}
	threads := make([]Thread, 0, len(tids))
	for _, tid := range tids {
		if s.ThreadNames {
			comm, err = procfs.Comm(proc, fmt.Sprintf("%d/task/%d", pid, tid))
			if procfs.Ended(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read the name of thread %d: %w", tid, err)
			}
		}
		threads = append(threads, Thread{TID: tid, PID: pid, Comm: comm})
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	return threads, nil
}

// findThread looks up a single thread. /proc has an entry for each thread, though it lists only processes. Tgid in the thread's status is
// the process.
func findThread(root fs.FS, tid int) (Thread, error) {
	proc := procfs.Proc(root)
	status, err := procfs.ReadStatus(proc, strconv.Itoa(tid))
	if procfs.Ended(err) {
		return Thread{}, fmt.Errorf("there is no thread %d", tid)
	}
	if err != nil {
		return Thread{}, fmt.Errorf("look up thread %d: %w", tid, err)
	}
	process, err := status.Need("Tgid")
	if err != nil {
		return Thread{}, fmt.Errorf("/proc/%d/status: %w", tid, err)
	}
	pid, err := strconv.Atoi(process)
	if err != nil {
		return Thread{}, fmt.Errorf("/proc/%d/status: Tgid: %w", tid, err)
	}
	comm, err := procfs.Comm(proc, fmt.Sprintf("%d/task/%[1]d", tid))
	if procfs.Ended(err) {
		return Thread{}, fmt.Errorf("thread %d has ended", tid)
	}
	if err != nil {
		return Thread{}, fmt.Errorf("read the name of thread %d: %w", tid, err)
	}
	return Thread{TID: tid, PID: pid, Comm: comm}, nil
}
