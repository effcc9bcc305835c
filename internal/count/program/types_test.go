package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// kind is a type of program, and the way to run one of it.
type kind struct {
	name    string
	spec    ebpf.ProgramSpec
	returns int64
	run     func(t *testing.T, p *ebpf.Program, times int)
	more    bool // it may run more often than times; the kernel counts the runs
}

var kinds = []kind{
	{name: "raw_tp", spec: ebpf.ProgramSpec{Type: ebpf.RawTracepoint}, run: testRun(ebpf.RunOptions{})},
	{name: "tp_btf", spec: ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "itimer_state"},
		run: attached(attachTracing, setTimer)},
	{name: "fentry", spec: ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: tested}, run: attached(attachTracing, test)},
	{name: "kprobe", spec: ebpf.ProgramSpec{Type: ebpf.Kprobe}, run: attached(attachKprobe, getSID)},
	{name: "tracepoint", spec: ebpf.ProgramSpec{Type: ebpf.TracePoint}, returns: 1, run: attached(attachTracepoint, getSID)},
	{name: "perf_event", spec: ebpf.ProgramSpec{Type: ebpf.PerfEvent}, run: onPageFaults, more: true},
	{name: "xdp", spec: ebpf.ProgramSpec{Type: ebpf.XDP}, run: testRun(packet)},
	{name: "tc", spec: ebpf.ProgramSpec{Type: ebpf.SchedCLS}, run: testRun(packet)},
	{name: "cgroup_skb", spec: ebpf.ProgramSpec{Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetIngress}, run: testRun(packet)},
	{name: "socket_filter", spec: ebpf.ProgramSpec{Type: ebpf.SocketFilter}, run: testRun(packet)},
	{name: "lsm", spec: ebpf.ProgramSpec{Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: "task_getsid"}, run: attached(attachLSM, getSID)},
	{name: "struct_ops", spec: ebpf.ProgramSpec{Type: ebpf.StructOps, AttachType: ebpf.AttachStructOps, AttachTo: "bpf_dummy_ops:test_1"},
		run: testRun(ebpf.RunOptions{Context: uint64(0)})},
	{name: "iterator", spec: ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "bpf_map_elem"}, run: iterate},
}

// tested is the kernel's function for tests of tracing, which test calls once.
const tested = "bpf_fentry_test1"

func test(p *ebpf.Program) error {
	_, err := p.Run(&ebpf.RunOptions{})
	return err
}

var packet = ebpf.RunOptions{Data: make([]byte, 64)}

// testRun runs a program with BPF_PROG_TEST_RUN.
func testRun(o ebpf.RunOptions) func(t *testing.T, p *ebpf.Program, times int) {
	return func(t *testing.T, p *ebpf.Program, times int) {
		t.Helper()
		for range times {
			_, err := p.Run(&o)
			check(t, err)
		}
	}
}

// attached attaches a program and runs it through trigger.
func attached(attach func(p *ebpf.Program) (link.Link, error), trigger func(p *ebpf.Program) error) func(t *testing.T, p *ebpf.Program, times int) {
	return func(t *testing.T, p *ebpf.Program, times int) {
		t.Helper()
		l, err := attach(p)
		if err != nil && !require.IsGuest() {
			t.Skip(err)
		}
		check(t, err)
		for range times {
			check(t, trigger(p))
		}
		check(t, l.Close())
	}
}

func attachTracing(p *ebpf.Program) (link.Link, error) {
	return link.AttachTracing(link.TracingOptions{Program: p})
}
func attachLSM(p *ebpf.Program) (link.Link, error) {
	return link.AttachLSM(link.LSMOptions{Program: p})
}
func attachKprobe(p *ebpf.Program) (link.Link, error) { return link.Kprobe("sys_getsid", p, nil) }
func attachTracepoint(p *ebpf.Program) (link.Link, error) {
	return link.Tracepoint("syscalls", "sys_enter_getsid", p, nil)
}

// getSID and setTimer make system calls that no other process on the machine makes.
func getSID(*ebpf.Program) error {
	_, err := unix.Getsid(os.Getpid())
	return err
}

func setTimer(*ebpf.Program) error {
	_, err := unix.Setitimer(unix.ItimerVirtual, unix.Itimerval{})
	return err
}

// onPageFaults runs a program at each page fault of this thread.
func onPageFaults(t *testing.T, p *ebpf.Program, times int) {
	t.Helper()
	size := times * unix.Getpagesize()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(t, err)
	defer unix.Munmap(memory)
	check(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	check(t, perfevent.OnCPU(0, func() error {
		e, err := perfevent.Open(&perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, SamplePeriod: 1},
			perfevent.Where{CPU: perfevent.AnyCPU})
		if err != nil {
			return err
		}
		if err := e.SetBPF(p.FD()); err != nil {
			return errors.Join(err, e.Close())
		}
		for i := 0; i < size; i += unix.Getpagesize() {
			memory[i] = 1
		}
		return e.Close()
	}))
}

// iterate runs a program for each element of a map, and once for the end.
func iterate(t *testing.T, p *ebpf.Program, times int) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: uint32(times - 1)})
	check(t, err)
	defer m.Close()
	l, err := link.AttachIter(link.IterOptions{Program: p, Map: m})
	check(t, err)
	defer l.Close()
	r, err := l.Open()
	check(t, err)
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	check(t, err)
}

// TestTypes counts events in a program of each type that the kernel can trace. For the other types it gets the kernel's statistics instead,
// with the kernel's reason.
func TestTypes(t *testing.T) {
	reason := ""
	if !tracesTracers(t) {
		reason = "Cannot recursively attach"
	}
	var all []loadedKind
	for _, k := range kinds {
		p := k.load(t, types())
		switch {
		case p == nil:
		case k.spec.Type == ebpf.Tracing:
			all = append(all, loadedKind{k, p, reason})
		default:
			all = append(all, loadedKind{k, p, ""})
		}
	}
	countKinds(t, all)
}

// TestTracerOfATracer selects a program that the kernel does not allow tracing.
func TestTracerOfATracer(t *testing.T) {
	if !tracesTracers(t) {
		t.Skip("needs Linux 6.8: before, a tracing program cannot be attached to another")
	}
	k := kind{name: "fentry", spec: ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: tested}}
	tracer := k.load(t, types())
	if tracer == nil {
		t.Skip("needs a kernel that allows fentry")
	}
	l, err := attachTracing(tracer)
	check(t, err)
	defer l.Close()
	k.spec.AttachTarget, k.spec.AttachTo = tracer, "loop"
	k.run = attached(attachTracing, test)
	countKinds(t, []loadedKind{{k, k.load(t, types()), "Cannot nest tracing program attach more than once"}})
}

func tracesTracers(t *testing.T) bool {
	t.Helper()
	version, err := features.LinuxVersionCode()
	check(t, err)
	return version >= 6<<16|8<<8
}

// load loads a program. It returns nil if the kernel does not allow that.
func (k kind) load(t *testing.T, types *btf.Cache) *ebpf.Program {
	t.Helper()
	require.Root(t)
	spec := k.spec
	spec.Name, spec.License, spec.Instructions = "loop", "GPL", loop(0)
	spec.Instructions[0].Constant = k.returns
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"loop": &spec}}, ebpf.CollectionOptions{Cache: types})
	if errors.Is(err, fs.ErrPermission) && !require.IsGuest() {
		t.Logf("%s: %v", k.name, err)
		return nil
	}
	check(t, err)
	t.Cleanup(c.Close)
	return c.Programs["loop"]
}

type loadedKind struct {
	kind
	program  *ebpf.Program
	untraced string // the kernel's reason; empty if it can trace the program
}

// countKinds counts runs of programs, in one session.
func countKinds(t *testing.T, all []loadedKind) {
	t.Helper()
	const times = 100
	var targets []Target
	for _, k := range all {
		targets = append(targets, find(t, k.program))
	}
	c := open(t, "cpu-clock,page-faults", targets...)
	check(t, c.Enable())
	for i, k := range all {
		t.Run(k.name, func(t *testing.T) {
			runs := kernelRuns(t, k.program)
			k.run(t, k.program, times)
			r, why := read(t, c, i), c.ErrAt(0, i)
			if want := runs(); r.runs != want || want < times || want > times && !k.more {
				t.Errorf("%d runs, %d for the kernel, of %d", r.runs, want, times)
			}
			switch {
			case why == nil:
				for ev, e := range r.events {
					if e.Runs.Counted == 0 || e.Runs.Counted+r.dropped != r.runs || e.Enabled == 0 {
						t.Errorf("event %d: %d runs counted, %d dropped; %+v", ev, e.Runs.Counted, r.dropped, e.Reading)
					}
				}
			case !require.IsGuest() && errors.Is(why, fs.ErrPermission): // for any type
				return
			}
			if (why != nil) != (k.untraced != "") || why != nil && !strings.Contains(why.Error(), k.untraced) {
				t.Errorf("not traced: %v, want %q", why, k.untraced)
			}
		})
	}
}

// find finds a program as sessions do.
func find(t *testing.T, p *ebpf.Program) Target {
	t.Helper()
	info, err := p.Info()
	check(t, err)
	id, _ := info.ID()
	selector, err := bpfprog.Parse(fmt.Sprint(id))
	check(t, err)
	targets, missing, err := Selection{Programs: selector}.Find()
	check(t, err)
	if len(targets) != 1 || len(missing) != 0 {
		t.Fatalf("program %d: %v, not found: %v", id, targets, missing)
	}
	return targets[0]
}
