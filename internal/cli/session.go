package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
)

// sessionOptions are the flags that stat, record and profile share: what a session measures and when.
type sessionOptions struct {
	targetOptions
	events             []eventArg // -e -M -G --filter --prog, in their order
	eventFiles         string     // the directory with more events of the CPU; empty for the default
	allUser, allKernel bool
	noInherit          bool

	delay, timeout int // ms
	control        string
	quiet, verbose bool
}

// targetOptions are the flags that select the target.
type targetOptions struct {
	system     bool
	cpus       string
	pids, tids string
	user       string // only of record
}

// add adds the flags for the target. verb says what the command does with it.
func (o *targetOptions) add(f *pflag.FlagSet, verb string) {
	f.BoolVarP(&o.system, "all-cpus", "a", false, verb+" the whole system")
	f.StringVarP(&o.cpus, "cpu", "C", "", verb+" only on the CPUs of this `LIST`, such as 0-3,8")
	f.StringVarP(&o.pids, "pid", "p", "", verb+" the processes of this `LIST`, with all threads and children")
	f.StringVarP(&o.tids, "tid", "t", "", verb+" the threads of this `LIST`")
}

// ofTasks reports whether the target is processes or threads.
func (o *targetOptions) ofTasks() bool { return o.pids != "" || o.tids != "" || o.user != "" }

// onCPUs reports whether the target is CPUs or the whole system, possibly while a command runs.
func (o *targetOptions) onCPUs(command []string) bool {
	return o.system || o.cpus != "" || len(command) == 0 && !o.ofTasks()
}

// noteIgnored prints a note if tasks and CPUs are given.
func (o *targetOptions) noteIgnored(note func(string)) {
	if o.ofTasks() && (o.system || o.cpus != "") {
		note("processes and threads are measured on every CPU that they run on: -a and -C are ignored")
	}
}

// target returns the target, which is empty if only the command is measured.
func (o *targetOptions) target(command []string) (t target.Spec, err error) {
	switch {
	case o.pids != "":
		t.PIDs, err = target.ParseIDs(o.pids)
	case o.tids != "":
		t.TIDs, err = target.ParseIDs(o.tids)
	case o.user != "":
		t.User = o.user
	case o.cpus != "":
		t.CPUs, err = procfs.ParseCPUList(o.cpus)
	case o.system || len(command) == 0:
		t.System = true
	}
	return t, err
}

// addSchedule adds the flags that say when the session measures. doing names the activity.
func (o *sessionOptions) addSchedule(f *pflag.FlagSet, doing string) {
	f.IntVarP(&o.delay, "delay", "D", 0, "start "+doing+" `MS` milliseconds after the start; -1 to start disabled")
	o.addTimeout(f)
	f.StringVar(&o.control, "control", "", "read the commands enable, disable, ping and stop from `fd:CTL[,ACK]` or fifo:CTL[,ACK]")
}

func (o *sessionOptions) addTimeout(f *pflag.FlagSet) {
	f.IntVar(&o.timeout, "timeout", 0, "end after `MS` milliseconds (at least 10)")
}

// has reports whether an option of this kind is given.
func (o *sessionOptions) has(kind argKind) bool {
	return slices.ContainsFunc(o.events, func(a eventArg) bool { return a.kind == kind })
}

// check returns an error for invalid values and combinations. cgroups is true if cgroups are measured.
func (o *sessionOptions) check(given func(string) bool, command []string, cgroups bool) error {
	bad := badCombinationIf
	return firstError(
		bad(given("timeout") && o.timeout < 10, "--timeout %d: the timeout must be at least 10 ms", o.timeout),
		bad(o.delay < -1, "-D %d: give a number of milliseconds, or -1 to start disabled", o.delay),
		bad(o.delay == -1 && o.control == "", "-D -1 starts disabled and needs --control to be enabled"),
		bad(o.pids != "" && o.tids != "", "-p and -t cannot be combined"),
		bad(o.user != "" && o.pids+o.tids != "", "-u records all processes of a user: leave out -p and -t"),
		bad(cgroups && (!o.onCPUs(command) || o.ofTasks()), "cgroups are measured on CPUs: add -a or -C, and select no processes or threads"),
		bad(o.allUser && o.allKernel, "user mode only and kernel only together leave nothing to measure: give only one"),
	)
}

// spec returns a session for the command, without a target.
func (o *sessionOptions) spec(command []string) session.Spec {
	return session.Spec{Command: command, Delay: time.Duration(max(o.delay, 0)) * time.Millisecond, StartDisabled: o.delay == -1,
		Timeout: time.Duration(o.timeout) * time.Millisecond}
}

// noteTo returns a function that prints notes to w, or nothing with --quiet.
func (o *sessionOptions) noteTo(w io.Writer) func(string) {
	if o.quiet {
		return func(string) {}
	}
	return func(s string) { fmt.Fprintln(w, printable.Lines(s)) }
}

// openControl opens the control channel of --control. It returns nil without that flag.
func (o *sessionOptions) openControl(note func(string)) (*control.Channel, error) {
	if o.control == "" {
		return nil, nil
	}
	c, err := control.Open(o.control, note)
	if err != nil {
		return nil, badOption(err)
	}
	return c, nil
}
