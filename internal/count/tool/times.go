package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// times has the sources of a target's CPU times.
type times struct {
	from    []source
	refresh func() error // the caller calls it before it reads the sources; may be nil

	// Why there are no sources; then from is empty.
	err            error
	reason, remedy string
}

// source reads the CPU times of one part of a target, in ns.
type source struct {
	cpu, thread, cgroup int // as in count.Cell

	read func() (user, system uint64, err error)
}

func timesOf(root fs.FS, t target.Target, o Options) times {
	switch {
	case len(t.Threads) > 0:
		return threadTimes(root, t.Threads, o.Inherit)
	case len(t.Cgroups) > 0:
		return cgroupTimes(root, t)
	default:
		return cpuTimes(root, t.CPUs)
	}
}

// threadTimes returns a source per thread. With inherit, it returns one per process for processes that are complete in threads.
func threadTimes(root fs.FS, threads []target.Thread, inherit bool) times {
	var result times
	whole := make(map[int]bool) // by process: it has one source
	for i, thread := range threads {
		covered, seen := whole[thread.PID]
		if inherit && !seen {
			whole[thread.PID] = complete(root, thread.PID, threads)
		}
		if covered {
			continue
		}
		task, process := fmt.Sprintf("%d/task/%d", thread.PID, thread.TID), whole[thread.PID]
		if process {
			task = strconv.Itoa(thread.PID)
		}
		result.from = append(result.from, source{count.None, i, count.None, func() (uint64, uint64, error) {
			return taskTimes(root, task, process)
		}})
	}
	return result
}

// complete reports whether threads has all threads of a process.
func complete(root fs.FS, pid int, threads []target.Thread) bool {
	tids, err := procfs.Threads(procfs.Proc(root), pid)
	if err != nil {
		return false
	}
	listed := make(map[int]bool)
	for _, thread := range threads {
		if thread.PID == pid {
			listed[thread.TID] = true
		}
	}
	return !slices.ContainsFunc(tids, func(tid int) bool { return !listed[tid] })
}

// taskTimes reads the CPU times of a thread, or of a process and the children that it has waited for, in ns.
func taskTimes(root fs.FS, task string, process bool) (user, system uint64, err error) {
	s, err := procfs.ReadTaskStat(procfs.Proc(root), task)
	if err != nil {
		return 0, 0, err
	}
	if process {
		s.User, s.System = s.User+s.ChildrenUser, s.System+s.ChildrenSystem
	}
	return uint64(s.User), uint64(s.System), nil
}

// cpuTimes returns a source per CPU. One read of /proc/stat updates all of them. user includes nice; system includes the handling of interrupts.
func cpuTimes(root fs.FS, cpus []int) times {
	var now procfs.Stat
	result := times{refresh: func() (err error) {
		now, err = procfs.ReadStat(procfs.Proc(root))
		if err != nil {
			return fmt.Errorf("read CPU times: %w", err)
		}
		return nil
	}}
	for _, cpu := range cpus {
		result.from = append(result.from, source{cpu, count.None, count.None, func() (uint64, uint64, error) {
			at, ok := now.CPUs[cpu]
			if !ok { // the CPU is offline
				return 0, 0, fs.ErrNotExist
			}
			return uint64(at.User + at.Nice), uint64(at.System + at.IRQ + at.SoftIRQ), nil
		}})
	}
	return result
}

// cgroupTimes returns a source per cgroup. The kernel has a cgroup's times only for all CPUs together
// (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files).
func cgroupTimes(root fs.FS, t target.Target) times {
	online, err := procfs.CPUs(procfs.Sys(root), "online")
	if err != nil {
		return times{err: err, reason: fmt.Sprintf("The CPUs of this machine cannot be listed: %v.", err)}
	}
	if !slices.Equal(online, t.CPUs) {
		return times{err: errors.ErrUnsupported, remedy: "Leave out -C.",
			reason: "The kernel knows the CPU times of a cgroup for all CPUs together only."}
	}
	var result times
	for i, cgroup := range t.Cgroups {
		file := strings.TrimPrefix(cgroup.Path, "/") + "/cpu.stat"
		read := func() (uint64, uint64, error) { return readCPUStat(root, file) }
		if _, _, err := read(); err != nil {
			return times{err: err, remedy: "Only cgroup v2 has them.",
				reason: fmt.Sprintf("The CPU times of cgroup %s are not known: %v.", cgroup.Name, err)}
		}
		result.from = append(result.from, source{count.None, count.None, i, read})
	}
	return result
}

func readCPUStat(root fs.FS, file string) (user, system uint64, err error) {
	stat, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, 0, err
	}
	found := 0
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var to *uint64
		switch name {
		case "user_usec":
			to = &user
		case "system_usec":
			to = &system
		default:
			continue
		}
		usec, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/%s: %s %q is not a number", file, name, value)
		}
		*to = usec * uint64(time.Microsecond)
		found++
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("/%s has no user_usec and system_usec", file)
	}
	return user, system, nil
}
