package kernel

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// permission returns the remedy if this process may not count. other is an alternative for a process without the capabilities.
// Distributions added levels above 2 to perf_event_paranoid; there, CAP_PERFMON does not help.
func (x examiner) permission(other string) string {
	if x.capabilities.has(capPerfmon, capSysAdmin) {
		return Policy
	}
	if level, err := procfs.Sysctl(x.proc, "kernel/perf_event_paranoid"); err == nil && level > 2 {
		return "Run as root, or allow more: sysctl kernel.perf_event_paranoid=2" + other
	}
	return "Run as root, or give bperf the capability: setcap cap_perfmon=ep BPERF" + other
}

// try opens an event and closes it.
func try(attr perfdata.Attr, at perfevent.Where) error {
	attr.Flags |= perfdata.AttrDisabled
	e, err := perfevent.Open(&attr, at)
	if err != nil {
		return err
	}
	return e.Close()
}

func software(config uint64) perfdata.Attr {
	return perfdata.Attr{Type: perfdata.TypeSoftware, Config: config}
}

var ownThread = perfevent.Where{CPU: perfevent.AnyCPU}

// ownThread tries to count this process itself, which needs the fewest privileges.
func (x examiner) ownThread() Finding {
	const feature = "counting own processes"
	clock := software(perfdata.SoftwareTaskClock)
	err := try(clock, ownThread)
	switch {
	case err == nil:
		return works(feature, "in user mode and in the kernel")
	case errors.Is(err, unix.ENOSYS):
		return missing(feature, "Build the kernel with CONFIG_PERF_EVENTS.", "this kernel has no perf_event_open")
	}
	clock.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	if try(clock, ownThread) == nil {
		return limited(feature, x.permission("; or sysctl kernel.perf_event_paranoid=1"),
			"in user mode only: counting the kernel fails: %v", err)
	}
	return missing(feature, x.permission(". In a container, the seccomp profile must allow perf_event_open."),
		"perf_event_open: %v", err)
}

// system tries to count everything on one CPU.
func (x examiner) system() Finding {
	const feature = "counting the system"
	cpus, err := procfs.CPUs(x.sys, "online")
	if err != nil {
		return missing(feature, "Mount sysfs: mount -t sysfs sysfs /sys", "%v", err)
	}
	if err := try(software(perfdata.SoftwareCPUClock), perfevent.Where{Thread: perfevent.AnyThread, CPU: cpus[0]}); err != nil {
		return missing(feature, x.permission("; or sysctl kernel.perf_event_paranoid=0"), "an event on CPU %d: %v", cpus[0], err)
	}
	return works(feature, "all processes, on every CPU")
}

// cgroups tries to count the root of the cgroup hierarchy that perf events use.
func (x examiner) cgroups() Finding {
	const feature = "counting cgroups"
	mounts, err := procfs.Mounts(x.proc, "self")
	if err != nil {
		return missing(feature, "Mount procfs: mount -t proc proc /proc", "%v", err)
	}
	where, ok := procfs.FindMount(mounts, "cgroup", "perf_event")
	version := "v1 perf_event"
	if !ok {
		where, ok = procfs.FindMount(mounts, "cgroup2", "")
		version = "v2"
	}
	if !ok {
		return missing(feature, "Mount it: mount -t cgroup2 none /sys/fs/cgroup", "no cgroup2 and no v1 perf_event hierarchy is mounted")
	}
	dir, err := os.Open(where)
	if err != nil {
		return missing(feature, "", "%v", err)
	}
	defer dir.Close()
	cpus, err := procfs.CPUs(x.sys, "online")
	if err != nil {
		return missing(feature, "Mount sysfs: mount -t sysfs sysfs /sys", "%v", err)
	}
	at := perfevent.Where{Cgroup: int(dir.Fd()), UseCgroup: true, CPU: cpus[0]}
	if err := try(software(perfdata.SoftwareCPUClock), at); err != nil {
		return missing(feature, x.permission("")+". The kernel needs CONFIG_CGROUP_PERF.", "cgroup %s on %s: %v", version, where, err)
	}
	return works(feature, "cgroup %s on %s", version, where)
}

// tracepoints tries to open sched:sched_switch, which every kernel has.
func (x examiner) tracepoints() Finding {
	const feature = "tracepoints"
	text, err := fs.ReadFile(x.sys, strings.TrimPrefix(x.tracefs, "/sys/")+"/events/sched/sched_switch/id")
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.readsRefused:
		return missing(feature, unlock, "with lockdown=confidentiality, tracefs is empty")
	case errors.Is(err, fs.ErrNotExist):
		return missing(feature, "Mount it: mount -t tracefs nodev "+x.tracefs, "tracefs is not mounted on %s", x.tracefs)
	case err != nil:
		return missing(feature, "Run as root, or let a group read it: mount -o remount,gid=GID "+x.tracefs, "%v", err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return missing(feature, "", "the ID of sched:sched_switch is %q, not a number", text)
	}
	if err := try(perfdata.Attr{Type: perfdata.TypeTracepoint, Config: id}, ownThread); err != nil {
		return missing(feature, x.permission("; or sysctl kernel.perf_event_paranoid=-1"), "sched:sched_switch: %v", err)
	}
	return works(feature, "tracefs on %s", x.tracefs)
}

// cycles returns the event that every PMU has, restricted to user mode if this process may not count the kernel.
func cycles() perfdata.Attr {
	attr := perfdata.Attr{Type: perfdata.TypeHardware, Config: unix.PERF_COUNT_HW_CPU_CYCLES}
	if err := try(attr, ownThread); errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		attr.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	}
	return attr
}

// pmu reports the number of hardware counters: the kernel lets a group grow while the whole group fits on the counters at once.
func (x examiner) pmu() Finding {
	const feature = "hardware counters"
	attr := cycles() // not disabled: arm64 checks only the events of a group that are not disabled
	leader, err := perfevent.Open(&attr, ownThread)
	if err != nil {
		return x.noPMU(feature, err)
	}
	defer leader.Close()
	const most = 64
	n := 1
	for attr.Config = unix.PERF_COUNT_HW_INSTRUCTIONS; n < most; n++ {
		at := ownThread
		at.Leader = leader
		member, err := perfevent.Open(&attr, at)
		if err != nil {
			break
		}
		defer member.Close()
	}
	if watchdog, err := fs.ReadFile(x.proc, "sys/kernel/nmi_watchdog"); err == nil && strings.TrimSpace(string(watchdog)) == "1" {
		return limited(feature, "Free it: sysctl kernel.nmi_watchdog=0",
			"%d at once (cycles and instructions in a group); the NMI watchdog permanently uses one", n)
	}
	return works(feature, "%d at once (cycles and instructions in a group)", n)
}

func (x examiner) noPMU(feature string, err error) Finding {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
		return missing(feature, "In a virtual machine, let the hypervisor give the guest a PMU.",
			"the kernel found no PMU; software events and tracepoints work without one")
	}
	return missing(feature, x.permission(""), "cycles: %v", err)
}

func (x examiner) softwareSampling() Finding {
	const feature = "sampling by timer"
	return x.sampled(feature, software(perfdata.SoftwareCPUClock), uint64(time.Millisecond))
}

func (x examiner) pmuSampling() Finding {
	const feature = "sampling by counter overflow"
	attr := cycles()
	if try(attr, ownThread) != nil {
		return missing(feature, "", "there are no hardware counters to overflow")
	}
	return x.sampled(feature, attr, 100_000)
}

// sampled tries whether an event writes samples to its ring buffer while this thread is busy.
func (x examiner) sampled(feature string, attr perfdata.Attr, period uint64) Finding {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr.SamplePeriod, attr.SampleType = period, perfdata.SampleIP
	attr.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	e, err := perfevent.Open(&attr, ownThread)
	if err != nil {
		return missing(feature, x.permission(""), "%v", err)
	}
	defer e.Close()
	ring, err := e.Map(0)
	if err != nil {
		return missing(feature, "Allow more locked memory: sysctl kernel.perf_event_mlock_kb, or ulimit -l", "map the ring buffer: %v", err)
	}
	defer ring.Close()
	for start := time.Now(); time.Since(start) < time.Second; {
		record, ok, err := ring.Next()
		if err != nil {
			return missing(feature, "", "%v", err)
		}
		if ok && record.Type == perfevent.RecordSample {
			return works(feature, "samples arrive")
		}
	}
	return missing(feature, "Some virtual machines have counters that never interrupt: ask the hypervisor for a full PMU.",
		"no sample arrived within a second")
}
