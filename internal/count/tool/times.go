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
	"github.com/bperf/bperf/internal/target"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on all architectures that bperf runs on.
const tick = uint64(time.Second / 100)

// times is where the CPU times of a target come from.
type times struct {
	from    []source
	refresh func() error // to be called before the sources are read; may be nil

	// Why there are none; then from is empty.
	err            error
	reason, remedy string
}

// source gives the CPU times, in ns, of one part of a target.
type source struct {
	cpu, thread, cgroup int // as in count.Cell

	read func() (user, system uint64, err error)
}

func timesOf(root fs.FS, t target.Target, o count.Options) times {
	switch {
	case len(t.Threads) > 0:
		return threadTimes(root, t.Threads, o.Inherit)
	case len(t.Cgroups) > 0:
		return cgroupTimes(root, t)
	default:
		return cpuTimes(root, t.CPUs)
	}
}

// threadTimes has a source per thread or, to be inherited, per process that is complete.
func threadTimes(root fs.FS, threads []target.Thread, inherit bool) times {
	var result times
	whole := make(map[int]bool) // process: whether it has a source as a whole
	for i, thread := range threads {
		covered, seen := whole[thread.PID]
		if inherit && !seen {
			whole[thread.PID] = complete(root, thread.PID, threads)
		}
		file := fmt.Sprintf("proc/%d/task/%d/stat", thread.PID, thread.TID)
		switch {
		case covered:
			continue
		case whole[thread.PID]:
			file = fmt.Sprintf("proc/%d/stat", thread.PID)
		}
		result.from = append(result.from, source{count.None, i, count.None, func() (uint64, uint64, error) {
			return taskTimes(root, file)
		}})
	}
	return result
}

// complete reports whether all threads of a process are in a list.
func complete(root fs.FS, pid int, threads []target.Thread) bool {
	tasks, err := fs.ReadDir(root, fmt.Sprintf("proc/%d/task", pid))
	if err != nil {
		return false
	}
	listed := make(map[string]bool)
	for _, thread := range threads {
		if thread.PID == pid {
			listed[strconv.Itoa(thread.TID)] = true
		}
	}
	return !slices.ContainsFunc(tasks, func(task fs.DirEntry) bool { return !listed[task.Name()] })
}

// taskTimes reads utime and stime of a thread or process, with those of its children that were
// waited for, which threads do not have (proc_pid_stat(5), fields 14 to 17).
func taskTimes(root fs.FS, file string) (user, system uint64, err error) {
	stat, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, 0, err
	}
	// The name, field 2, is in parentheses and may contain any character.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/%s is cut short", file)
	}
	ticks, err := parseTicks(file, fields[11:15])
	if err != nil {
		return 0, 0, err
	}
	user, system = ticks[0], ticks[1]
	if !strings.Contains(file, "/task/") {
		user, system = user+ticks[2], system+ticks[3]
	}
	return user * tick, system * tick, nil
}

func parseTicks(file string, fields []string) ([]uint64, error) {
	ticks := make([]uint64, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/%s: %q is not a number of clock ticks", file, field)
		}
		ticks[i] = n
	}
	return ticks, nil
}

// cpuTimes has a source per CPU, all of which are read from /proc/stat at once (proc_stat(5)). user
// contains nice, system contains the handling of interrupts.
func cpuTimes(root fs.FS, cpus []int) times {
	var now map[int][2]uint64
	result := times{refresh: func() (err error) {
		now, err = readCPUTimes(root)
		return err
	}}
	for _, cpu := range cpus {
		result.from = append(result.from, source{cpu, count.None, count.None, func() (uint64, uint64, error) {
			at, ok := now[cpu]
			if !ok { // it went offline
				return 0, 0, fs.ErrNotExist
			}
			return at[0], at[1], nil
		}})
	}
	return result
}

func readCPUTimes(root fs.FS) (map[int][2]uint64, error) {
	const file = "proc/stat"
	stat, err := fs.ReadFile(root, file)
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	all := make(map[int][2]uint64)
	for line := range strings.Lines(string(stat)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			return nil, fmt.Errorf("/%s: %q is not a CPU", file, fields[0])
		}
		// user nice system idle iowait irq softirq
		t, err := parseTicks(file, fields[1:8])
		if err != nil {
			return nil, err
		}
		all[cpu] = [2]uint64{(t[0] + t[1]) * tick, (t[2] + t[5] + t[6]) * tick}
	}
	return all, nil
}

// cgroupTimes has a source per cgroup. The kernel knows their times for all CPUs together only
// (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files).
func cgroupTimes(root fs.FS, t target.Target) times {
	all, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return times{err: err, reason: fmt.Sprintf("The CPUs of this machine cannot be listed: %v.", err)}
	}
	if strings.TrimSpace(string(all)) != target.FormatCPUList(t.CPUs) {
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
