package direct

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Explain explains an error of perf_event_open, for engines that open events themselves. The event was opened for thread tid of the target, or on a
// CPU if tid is perfevent.AnyThread. reason is set if only this event cannot be counted: a *count.Unsupported or an *accessError. fatal is set if
// the session must end.
func Explain(e *event.Event, tid, cpu int, t target.Target, o count.Options, err error) (reason, fatal error) {
	at := scope{cpu, count.None, count.None}
	if thread := slices.IndexFunc(t.Threads, func(thread target.Thread) bool { return thread.TID == tid }); thread >= 0 {
		at = scope{count.None, thread, count.None}
	}
	return newOpener(os.DirFS("/"), t, o).explain(e, at, err)
}

// explain explains an error of perf_event_open. reason is set if only this event cannot be counted, fatal if the session
// must end.
func (p *opener) explain(e *event.Event, at scope, err error) (reason, fatal error) {
	var full *perfevent.LimitError
	if errors.As(err, &full) {
		return nil, p.tooManyFiles(full)
	}
	errno, ok := err.(syscall.Errno)
	if !ok {
		return nil, err
	}
	what := e.Name + " " + at.describe(p.target)
	switch errno {
	case syscall.EACCES, syscall.EPERM:
		return p.denied(e, at, errno), nil
	case syscall.ENFILE:
		return nil, fmt.Errorf("count %s: %w. The whole system has as many files open as fs.file-max allows. "+
			"Try: sysctl fs.file-max", what, err)
	case syscall.ENOMEM:
		return nil, fmt.Errorf("count %s: %w. The kernel has no memory left for it: count fewer events, or on fewer CPUs", what, err)
	case syscall.ENOSYS:
		return nil, fmt.Errorf("count %s: %w. This kernel was built without perf events (CONFIG_PERF_EVENTS)", what, err)
	case syscall.EBADF:
		if at.cgroup != count.None {
			return nil, fmt.Errorf("count %s: %s is not a cgroup that perf events know", what, p.target.Cgroups[at.cgroup].Path)
		}
	}
	u := &count.Unsupported{Event: e, Err: err}
	u.Reason, u.Remedy = p.unsupported(e, errno)
	return u, nil
}

// unsupported returns the meaning of an errno for the event, and a remedy or "".
func (p *opener) unsupported(e *event.Event, errno syscall.Errno) (reason, remedy string) {
	switch errno {
	case syscall.ENOENT, syscall.ENXIO, syscall.ENODEV:
		return p.missing(e)
	case syscall.EOPNOTSUPP:
		if e.Attr.Flags&(perfdata.AttrPreciseIP1|perfdata.AttrPreciseIP2) != 0 {
			return "This CPU cannot count it precisely.", "Leave out the modifier p."
		}
		if !p.hasPMU() && hardware(e) {
			return p.missing(e)
		}
		return "The PMU " + e.PMU + " cannot count it in this way.", ""
	case syscall.EINVAL:
		return p.invalid(e)
	case syscall.E2BIG:
		return "It uses a field of struct perf_event_attr that this kernel does not know.", "Linux 6.3 and later know config3."
	case syscall.EBUSY:
		return "Something else uses the PMU " + e.PMU + " exclusively.", "End it, or wait for it: another profiler, or the NMI watchdog (sysctl kernel.nmi_watchdog=0)."
	case syscall.ENOSPC:
		return "All counters or debug registers that could count it are in use for good.", "End what else uses them: another profiler, or a debugger."
	default:
		return fmt.Sprintf("The kernel refuses to count it: %v.", errno), ""
	}
}

func (p *opener) missing(e *event.Event) (reason, remedy string) {
	switch {
	case hardware(e) && !p.hasPMU():
		return "This machine shows no PMU.", "See bperf doctor."
	case hardware(e):
		return "The PMU of this CPU has no such event.", ""
	case len(p.target.Cgroups) > 0: // the event itself exists: if the system can count it, so can cgroups
		return "The hierarchy of " + p.target.Cgroups[0].Path + " does not have the controller perf_event (see /proc/cgroups).",
			"Write another controller to cgroup.subtree_control in its root, such as +cpu, or unmount the v1 hierarchy that has it."
	case e.Attr.Type == perfdata.TypeSoftware:
		return "This kernel has no such software event.", ""
	case e.Attr.Type == perfdata.TypeTracepoint:
		return "This kernel does not have the tracepoint any more.", "Load the module that it belongs to."
	default:
		return "The PMU " + e.PMU + " has no such event.", ""
	}
}

func (p *opener) invalid(e *event.Event) (reason, remedy string) {
	const excludes = perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV | perfdata.AttrExcludeIdle |
		perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest
	m := &member{event: e}
	attr := p.attr(m, true)
	switch {
	case attr.Flags&excludes != 0 && !hardware(e):
		return "The PMU " + e.PMU + " cannot count user mode, kernel, idle time or guests separately.",
			"Leave out modifiers like u and k, and --all-user and --all-kernel."
	case attr.Flags&(perfdata.AttrPreciseIP1|perfdata.AttrPreciseIP2) != 0:
		return "This CPU cannot count it as precisely.", "Use the modifier p less often."
	case len(p.target.Cgroups) > 0:
		return "The PMU " + e.PMU + " cannot count it for cgroups.", "Count it for the system (-a)."
	case len(p.target.Threads) > 0:
		return fmt.Sprintf("The PMU %s cannot count it for threads (type %d, config %#x).", e.PMU, attr.Type, attr.Config),
			"Count it for the system (-a)."
	default:
		return fmt.Sprintf("The PMU %s does not know this configuration (type %d, config %#x).", e.PMU, attr.Type, attr.Config), ""
	}
}

func unscheduled(e *event.Event, leader string) error {
	return &count.Unsupported{Event: e, Err: fmt.Errorf("%w: %w", errSchedule, syscall.EINVAL),
		Reason: fmt.Sprintf("It cannot be in one group with %s: the PMU has too few counters for the group, or its events are of several PMUs.", leader),
		Remedy: "Leave out the braces, or add the modifier W to the group."}
}

// hardware reports whether the CPU's own PMU counts the event.
func hardware(e *event.Event) bool {
	switch e.Attr.Type {
	case perfdata.TypeHardware, perfdata.TypeHWCache, perfdata.TypeRaw:
		return true
	}
	return strings.HasPrefix(e.PMU, "cpu") || strings.HasPrefix(e.PMU, "armv8")
}

// hasPMU reports whether the CPU has a PMU in sysfs. The names are "cpu", "cpu_core" and "cpu_atom" on x86; on
// arm64, CPU PMUs have a file cpus.
func hasPMU(root fs.FS) bool {
	const devices = "sys/bus/event_source/devices"
	entries, _ := fs.ReadDir(root, devices) // without the directory there is no PMU
	for _, entry := range entries {
		switch name := entry.Name(); name {
		case "cpu", "cpu_core", "cpu_atom":
			return true
		default:
			if _, err := fs.Stat(root, devices+"/"+name+"/cpus"); err == nil {
				return true
			}
		}
	}
	return false
}

func goneError(t target.Target) error {
	first := t.Threads[0]
	for _, thread := range t.Threads {
		if thread.PID != first.PID {
			return errors.New("all processes and threads that were to be measured have ended")
		}
	}
	return fmt.Errorf("process %d (%s) has ended", first.PID, first.Comm)
}

func (p *opener) tooManyFiles(err *perfevent.LimitError) error {
	n := p.planned()
	events := 0
	for _, m := range p.members {
		if m.ours() {
			events++
		}
	}
	return fmt.Errorf("counting %s %s takes %d file descriptors, but %d is the limit: %w. "+
		"Raise it with `ulimit -n %d` (as root, where the shell refuses), or count less at a time",
		number(events, "event"), describeScopes(p.target), n, err.Limit, syscall.EMFILE, roundUp(n))
}

// roundUp adds room for the other files of a process, and rounds up to hundreds, which are easy to read.
func roundUp(n int) int { return (n + 64 + 99) / 100 * 100 }

// accessError is the error if the kernel does not allow the user to count an event.
type accessError struct {
	Event    string // as the user wrote it
	Scope    string // "on CPU 0"
	Paranoid int    // kernel.perf_event_paranoid, see https://docs.kernel.org/admin-guide/sysctl/kernel.html#perf-event-paranoid
	Err      syscall.Errno

	privileged bool // the process already has the capabilities

	task   bool // the target is a thread
	kernel bool // the event counts in kernel mode
	only   bool // the event happens only in the kernel
}

func (p *opener) denied(e *event.Event, at scope, errno syscall.Errno) *accessError {
	attr := p.attr(&member{event: e}, true)
	proc := procfs.Proc(p.root)
	return &accessError{
		Event:    e.Name,
		Scope:    at.describe(p.target),
		Paranoid: procfs.PerfEventParanoid(proc),
		Err:      errno,

		privileged: kernel.Privileged(proc),

		task:   at.thread != count.None,
		kernel: !attr.Has(perfdata.AttrExcludeKernel),
		only:   e.KernelOnly(),
	}
}

func (e *accessError) Unwrap() error { return e.Err }

// Error returns the refused operation, the reason and a remedy.
func (e *accessError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "count %s %s: %v. ", e.Event, e.Scope, e.Err)
	if e.privileged {
		b.WriteString(kernel.Policy)
		return b.String()
	}
	if e.Paranoid > 2 {
		fmt.Fprintf(&b, "kernel.perf_event_paranoid is %d: above 2, which is a distribution's addition, nothing may be counted without "+
			"CAP_SYS_ADMIN. Run bperf as root, or allow more: sysctl kernel.perf_event_paranoid=2", e.Paranoid)
		return b.String()
	}
	needs := e.needs()
	if e.Paranoid > needs {
		fmt.Fprintf(&b, "kernel.perf_event_paranoid is %d: without CAP_PERFMON, %s. ", e.Paranoid, e.rule())
	} else if e.task {
		fmt.Fprintf(&b, "kernel.perf_event_paranoid is %d, but the process is another user's or protected. ", e.Paranoid)
	} else {
		fmt.Fprintf(&b, "kernel.perf_event_paranoid is %d, which allows it; a security policy does not (of a container, seccomp, or a security module). ", e.Paranoid)
	}
	b.WriteString("Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF")
	if e.Paranoid > needs {
		fmt.Fprintf(&b, "; or let every user count: sysctl kernel.perf_event_paranoid=%d", needs)
	}
	if e.kernel && !e.only && e.task && e.Paranoid == 2 {
		b.WriteString("; or count in user mode only, with the modifier u")
	}
	return b.String()
}

// needs returns the highest perf_event_paranoid with which an unprivileged user may count the event.
func (e *accessError) needs() int {
	switch {
	case !e.task:
		return 0
	case e.kernel:
		return 1
	default:
		return 2
	}
}

func (e *accessError) rule() string {
	if !e.task {
		return "only a user's own processes may be counted, not CPUs and cgroups"
	}
	return "only user mode may be counted, not the kernel"
}
