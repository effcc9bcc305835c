package direct

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// runAsNobody runs a helper without any privilege, with kernel.perf_event_paranoid at a level, and
// returns what it prints.
func runAsNobody(t *testing.T, paranoid int, helper ...string) string {
	t.Helper()
	require.Paranoid(t, paranoid)
	cmd := exec.Command("/proc/self/exe", append([]string{"helper"}, helper...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper %v: %v\n%s", helper, err, stderr.Bytes())
	}
	return string(out)
}

// printOpenError opens events as the user it runs as, and prints their names and errors.
func printOpenError(args []string) {
	spec := map[string]target.Spec{
		"self":   {PIDs: []int{os.Getpid()}},
		"init":   {PIDs: []int{1}},
		"system": {System: true},
	}[args[0]]
	events := map[string]*event.Event{
		"page-faults":      software("page-faults", perfdata.SoftwarePageFaults),
		"page-faults:k":    software("page-faults:k", perfdata.SoftwarePageFaults),
		"context-switches": software("context-switches", perfdata.SoftwareContextSwitches),
	}
	events["page-faults:k"].Attr.Flags = perfdata.AttrExcludeUser
	at, err := spec.Resolve()
	if err != nil {
		panic(err)
	}
	at.CPUs, at.Threads = at.CPUs[:min(len(at.CPUs), 1)], at.Threads[:min(len(at.Threads), 1)]
	for i := range at.Threads {
		at.Threads[i].TID, at.Threads[i].Comm = at.Threads[i].PID, "comm"
	}
	var list event.List
	for _, name := range args[1:] {
		list = append(list, single(events[name])...)
	}
	c, err := Open(list, at, count.Options{})
	if err != nil {
		fmt.Println("Open:", strings.ReplaceAll(err.Error(), fmt.Sprint(os.Getpid()), "PID"))
		return
	}
	for i, e := range list.Events() {
		fmt.Println(e.Name, strings.ReplaceAll(fmt.Sprint(c.Err(i)), fmt.Sprint(os.Getpid()), "PID"))
	}
}

func TestAccess(t *testing.T) {
	tests := []struct {
		name     string
		paranoid int
		helper   []string
		want     string
	}{
		{"the system", 2, []string{"system", "page-faults"},
			"Open: count page-faults:u on CPU 0: permission denied. kernel.perf_event_paranoid is 2: " +
				"without CAP_PERFMON, only a user's own processes may be counted, not CPUs and cgroups. " +
				"Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF; " +
				"or let every user count: sysctl kernel.perf_event_paranoid=0\n"},
		{"another user's process", 2, []string{"init", "page-faults"},
			"Open: count page-faults:u for thread 1 (comm): permission denied. kernel.perf_event_paranoid is 2, " +
				"but the process is another user's or protected. " +
				"Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF\n"},
		{"the kernel", 2, []string{"self", "page-faults:k"},
			"Open: count page-faults:k for thread PID (comm): permission denied. kernel.perf_event_paranoid is 2: " +
				"without CAP_PERFMON, only user mode may be counted, not the kernel. " +
				"Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF; " +
				"or let every user count: sysctl kernel.perf_event_paranoid=1; or count in user mode only, with the modifier u\n"},
		{"user mode in place of both", 2, []string{"self", "page-faults", "context-switches"},
			"page-faults:u <nil>\n" +
				"context-switches count context-switches for thread PID (comm): permission denied. " +
				"kernel.perf_event_paranoid is 2: without CAP_PERFMON, only user mode may be counted, not the kernel. " +
				"Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF; " +
				"or let every user count: sysctl kernel.perf_event_paranoid=1\n"},
		{"both where it is allowed", 1, []string{"self", "page-faults", "context-switches"},
			"page-faults <nil>\ncontext-switches <nil>\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runAsNobody(t, tt.paranoid, append([]string{"denied"}, tt.helper...)...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// printFileLimitError opens more events than its file limit allows.
func printFileLimitError([]string) {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 50}); err != nil {
		panic(err)
	}
	var events []*event.Event
	for range 200 {
		events = append(events, software("dummy", perfdata.SoftwareDummy))
	}
	t := target.Target{Threads: []target.Thread{{TID: os.Getpid(), PID: os.Getpid()}}}
	few, err := Open(single(events[:40]...), t, count.Options{})
	if err != nil {
		panic(err) // the soft limit can be raised for these
	}
	few.Close()
	_, err = Open(single(events...), t, count.Options{})
	fmt.Println(errors.Is(err, syscall.EMFILE), err)
}

func TestFileLimit(t *testing.T) {
	got := runAsNobody(t, 2, "emfile")
	want := "true counting 200 events for 1 thread takes 200 file descriptors, but 50 is the limit: too many open files. " +
		"Raise it with `ulimit -n 300` (as root, where the shell refuses), or count less at a time\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEndedTarget(t *testing.T) {
	require.Root(t)
	p := startPuppet(t, 1)
	at := resolve(t, target.Spec{PIDs: []int{p.pid()}})
	one := at.Threads[0]
	one.Comm = "puppet"
	p.end()
	_, err := Open(single(software("dummy", perfdata.SoftwareDummy)), target.Target{Threads: []target.Thread{one}}, count.Options{})
	if want := fmt.Sprintf("process %d (puppet) has ended", p.pid()); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	// One living thread is enough.
	self := target.Thread{TID: os.Getpid(), PID: os.Getpid()}
	c := openCounter(t, single(software("dummy", perfdata.SoftwareDummy)), target.Target{Threads: []target.Thread{one, self}}, count.Options{})
	if cells, err := c.Read(nil); err != nil || len(cells) != 1 || cells[0].Thread != 1 {
		t.Errorf("cells %+v (%v), want one of the second thread", cells, err)
	}
}

func TestFilterError(t *testing.T) {
	require.Root(t)
	e := getppidEvent(t, "nonsense == 1")
	_, err := Open(single(e), resolve(t, target.Spec{System: true}), count.Options{})
	want := `syscalls:sys_enter_getppid: the kernel does not take the filter "nonsense == 1": invalid argument. ` +
		"Filters are for tracepoints; the fields of one are in /sys/kernel/tracing/events/syscalls/sys_enter_getppid/format"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestNoPMU(t *testing.T) {
	require.Root(t)
	p := newOpener(os.DirFS("/"), target.Target{}, count.Options{})
	if p.hasPMU() {
		t.Skip("this machine has a PMU")
	}
	cycles := hardwareEvent("cycles", 0)
	c := openCounter(t, single(cycles), resolve(t, target.Spec{System: true}), count.Options{})
	const want = "cycles: This machine shows no PMU. See bperf doctor."
	if err := c.Err(0); err == nil || err.Error() != want || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("error %v, want %s", err, want)
	}
	if cells, err := c.Read(nil); err != nil || len(cells) != 0 {
		t.Errorf("cells %v (%v), want none", cells, err)
	}
}

func TestExplain(t *testing.T) {
	withPMU := fstest.MapFS{"sys/bus/event_source/devices/armv8_pmuv3_0/cpus": {Data: []byte("0\n")}}
	system := target.Target{CPUs: []int{0, 1}}
	tracepoint := &event.Event{Name: "a:b", PMU: "tracepoint", Attr: perfdata.Attr{Type: perfdata.TypeTracepoint}}
	uncore := &event.Event{Name: "uncore_imc/x/u", PMU: "uncore_imc", Attr: perfdata.Attr{Type: 20, Flags: perfdata.AttrExcludeKernel}}
	plain := &event.Event{Name: "uncore_imc/x/", PMU: "uncore_imc", Attr: perfdata.Attr{Type: 20, Config: 0x1f}}
	precise := hardwareEvent("cycles:pp", 0)
	precise.Attr.Flags = perfdata.AttrPreciseIP2
	tests := []struct {
		event *event.Event
		at    target.Target
		errno syscall.Errno
		want  string
	}{
		{hardwareEvent("stalled-cycles-backend", 8), system, syscall.ENOENT, "stalled-cycles-backend: The PMU of this CPU has no such event."},
		{software("new", 77), system, syscall.ENOENT, "new: This kernel has no such software event."},
		{software("cs", 3), target.Target{CPUs: []int{0}, Cgroups: []target.Cgroup{{Name: "a", Path: "/c/a"}}}, syscall.ENOENT,
			"cs: The hierarchy of /c/a does not have the controller perf_event (see /proc/cgroups). " +
				"Write another controller to cgroup.subtree_control in its root, such as +cpu, or unmount the v1 hierarchy that has it."},
		{tracepoint, system, syscall.ENOENT, "a:b: This kernel does not have the tracepoint any more. Load the module that it belongs to."},
		{plain, system, syscall.ENXIO, "uncore_imc/x/: The PMU uncore_imc has no such event."},
		{plain, system, syscall.ENODEV, "uncore_imc/x/: The PMU uncore_imc has no such event."},
		{precise, system, syscall.EOPNOTSUPP, "cycles:pp: This CPU cannot count it precisely. Leave out the modifier p."},
		{precise, system, syscall.EINVAL, "cycles:pp: This CPU cannot count it as precisely. Use the modifier p less often."},
		{plain, system, syscall.EOPNOTSUPP, "uncore_imc/x/: The PMU uncore_imc cannot count it in this way."},
		{uncore, system, syscall.EINVAL, "uncore_imc/x/u: The PMU uncore_imc cannot count user mode, kernel, idle time or guests separately. " +
			"Leave out modifiers like u and k, and --all-user and --all-kernel."},
		{plain, system, syscall.EINVAL, "uncore_imc/x/: The PMU uncore_imc does not know this configuration (type 20, config 0x1f)."},
		{plain, target.Target{Threads: []target.Thread{{TID: 1}}}, syscall.EINVAL,
			"uncore_imc/x/: The PMU uncore_imc cannot count it for threads (type 20, config 0x1f). Count it for the system (-a)."},
		{plain, target.Target{CPUs: []int{0}, Cgroups: []target.Cgroup{{Name: "g"}}}, syscall.EINVAL,
			"uncore_imc/x/: The PMU uncore_imc cannot count it for cgroups. Count it for the system (-a)."},
		{plain, system, syscall.E2BIG, "uncore_imc/x/: It uses a field of struct perf_event_attr that this kernel does not know. Linux 6.3 and later know config3."},
		{plain, system, syscall.EBUSY, "uncore_imc/x/: Something else uses the PMU uncore_imc exclusively. " +
			"End it, or wait for it: another profiler, or the NMI watchdog (sysctl kernel.nmi_watchdog=0)."},
		{plain, system, syscall.ENOSPC, "uncore_imc/x/: All counters or debug registers that could count it are in use for good. " +
			"End what else uses them: another profiler, or a debugger."},
		{plain, system, syscall.EDOM, "uncore_imc/x/: The kernel refuses to count it: numerical argument out of domain."},
		{plain, system, syscall.ENFILE, "count uncore_imc/x/ on CPU 0: too many open files in system. " +
			"The whole system has as many files open as fs.file-max allows. Try: sysctl fs.file-max"},
		{plain, system, syscall.ENOMEM, "count uncore_imc/x/ on CPU 0: cannot allocate memory. The kernel has no memory left for it: count fewer events, or on fewer CPUs"},
		{plain, system, syscall.ENOSYS, "count uncore_imc/x/ on CPU 0: function not implemented. This kernel was built without perf events (CONFIG_PERF_EVENTS)"},
		{plain, target.Target{CPUs: []int{0}, Cgroups: []target.Cgroup{{Name: "g", Path: "/cg/g"}}}, syscall.EBADF,
			"count uncore_imc/x/ for cgroup g on CPU 0: /cg/g is not a cgroup that perf events know"},
		{plain, system, syscall.EPERM, "count uncore_imc/x/ on CPU 0: operation not permitted. kernel.perf_event_paranoid is -1, which allows it; " +
			"a security policy does not (of a container, seccomp, or a security module). " +
			"Run bperf as root, or give it the capability: setcap cap_perfmon=ep BPERF"},
		{plain, target.Target{Threads: []target.Thread{{TID: 1}}}, syscall.ENOENT, "uncore_imc/x/: The PMU uncore_imc has no such event."},
	}
	withPMU["proc/sys/kernel/perf_event_paranoid"] = &fstest.MapFile{Data: []byte("-1\n")}
	for _, tt := range tests {
		t.Run(tt.event.Name+" "+tt.errno.Error(), func(t *testing.T) {
			p := newOpener(withPMU, tt.at, count.Options{})
			reason, fatal := p.explain(tt.event, p.scopes[0], tt.errno)
			err := errors.Join(reason, fatal)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestDeniedWithCapabilities tests a refusal despite all capabilities, such as a seccomp filter's.
func TestDeniedWithCapabilities(t *testing.T) {
	e := software("cs", 3)
	p := newOpener(fstest.MapFS{"proc/self/status": {Data: []byte("CapEff:\t000001ffffffffff\n")}}, target.Target{CPUs: []int{0}}, count.Options{})
	err, _ := p.explain(e, p.scopes[0], syscall.EPERM)
	if want := "count cs on CPU 0: operation not permitted. " + kernel.Policy; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestParanoidOfDistributions(t *testing.T) {
	err := &accessError{Event: "cs", Scope: "on CPU 0", Paranoid: 3, Err: syscall.EACCES}
	want := "count cs on CPU 0: permission denied. kernel.perf_event_paranoid is 3: above 2, which is a distribution's addition, " +
		"nothing may be counted without CAP_SYS_ADMIN. Run bperf as root, or allow more: sysctl kernel.perf_event_paranoid=2"
	if err.Error() != want {
		t.Errorf("%s\nwant %s", err, want)
	}
}

func TestParanoidRule(t *testing.T) {
	tests := []struct {
		err  accessError
		want string
	}{
		{accessError{Paranoid: 2}, "only a user's own processes may be counted, not CPUs and cgroups"},
		{accessError{Paranoid: 2, task: true, kernel: true}, "only user mode may be counted, not the kernel"},
	}
	for _, tt := range tests {
		if got := tt.err.rule(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
