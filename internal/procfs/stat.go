package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ, which is 100 on amd64 and arm64 (<asm/param.h>).
const tick = time.Second / 100

// CPUTimes are the times of a CPU since boot, in steps of 10 ms (proc_stat(5)).
type CPUTimes struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ time.Duration

	Steal time.Duration // while the hypervisor ran something else
}

// Stat is the content of /proc/stat.
type Stat struct {
	All      CPUTimes         // the sum over all CPUs
	CPUs     map[int]CPUTimes // online CPUs only
	Switches uint64           // context switches since boot
}

// ReadStat reads /proc/stat (proc_stat(5)).
func ReadStat(proc fs.FS) (Stat, error) {
	text, err := read(proc, "/proc", "stat")
	if err != nil {
		return Stat{}, err
	}
	s := Stat{CPUs: map[int]CPUTimes{}}
	switches := false
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, " ")
		switch number, isCPU := strings.CutPrefix(name, "cpu"); {
		case isCPU:
			times, err := parseCPUTimes(rest)
			if err != nil {
				return Stat{}, fmt.Errorf("/proc/stat: %w", err)
			}
			if number == "" {
				s.All = times
				continue
			}
			cpu, err := strconv.Atoi(number)
			if err != nil {
				return Stat{}, fmt.Errorf("/proc/stat: %q is not a CPU", name)
			}
			s.CPUs[cpu] = times
		case name == "ctxt":
			if s.Switches, err = strconv.ParseUint(strings.TrimSpace(rest), 10, 64); err != nil {
				return Stat{}, fmt.Errorf("/proc/stat: context switches: %w", err)
			}
			switches = true
		}
	}
	if !switches {
		return Stat{}, errors.New("/proc/stat has no context switches (ctxt)")
	}
	return s, nil
}

func parseCPUTimes(text string) (t CPUTimes, err error) {
	fields := strings.Fields(text)
	all := []*time.Duration{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal}
	if len(fields) < len(all) {
		return t, errors.New("a line of CPU times is cut short")
	}
	for i, to := range all {
		if *to, err = parseTicks(fields[i]); err != nil {
			return t, err
		}
	}
	return t, nil
}

func parseTicks(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number of clock ticks", text)
	}
	return time.Duration(n) * tick, nil
}

// TaskStat holds the fields of /proc/PID/stat that bperf uses.
type TaskStat struct {
	State byte // R: runs or waits for a CPU; S, D: sleeps; Z, X: has ended …

	User, System                 time.Duration // CPU time, in steps of 10 ms
	ChildrenUser, ChildrenSystem time.Duration // CPU time of the children that the process has waited for
}

// Ended reports whether the task has ended, though its parent may not have noticed yet.
func (s *TaskStat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// ReadTaskStat reads /proc/PID/stat (proc_pid_stat(5)) of a process, "12", or of a thread, "12/task/13". The function Ended recognizes its
// error for a task that has ended.
func ReadTaskStat(proc fs.FS, task string) (s TaskStat, err error) {
	name := path.Join(task, "stat")
	text, err := read(proc, "/proc", name)
	if err != nil {
		return TaskStat{}, err
	}
	// The name, field 2, is in parentheses and may contain any character.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return TaskStat{}, fmt.Errorf("/proc/%s is cut short", name)
	}
	s.State = fields[0][0]
	for i, to := range []*time.Duration{&s.User, &s.System, &s.ChildrenUser, &s.ChildrenSystem} { // fields 14 to 17
		if *to, err = parseTicks(fields[11+i]); err != nil {
			return TaskStat{}, fmt.Errorf("/proc/%s: %w", name, err)
		}
	}
	return s, nil
}
