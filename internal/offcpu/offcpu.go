// Package offcpu measures how long threads are blocked, by the stack with which they left the CPU (bpf/offcpu.bpf.c): between a switch in state
// interruptible or uninterruptible and the next time that the thread runs. Who is preempted is not blocked, nor who is stopped, and kernel
// threads are left out.
//
// It needs Linux 5.15, and root or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
package offcpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
)

// Options say who is measured: all threads for which all of what is given is true.
type Options struct {
	Threshold time.Duration // what takes as long, or longer, is told of when it is over; the rest is added up

	ByThread bool       // only threads that were added
	Inherit  bool       // and those that they start
	CPUs     []int      // only on these CPUs; nil for all
	Cgroups  []*os.File // only in one of these directories of cgroup2, or below; nil for all

	NoKernel, NoUser bool // parts of stacks that are not wanted
}

// maxCgroups is how many there may be, as in offcpu.bpf.c.
const maxCgroups = 64

// Blocked is a time for which a thread was blocked, or the sum of several with the same stack.
type Blocked struct {
	Time     time.Duration
	PID, TID uint32 // in the PID namespace of this process
	CPU      uint32 // on which the thread ran next, the last time
	Cgroup   uint64
	Stack    Stack
}

// Stack is a stack from the innermost frame on. That of the kernel begins outside of the scheduler, where that is known.
type Stack struct {
	Kernel, User []uint64
}

// Lost is what there was no room for.
type Lost struct {
	Threads uint64 // times that a thread was blocked
	Stacks  uint64 // stacks: the times are there
	Targets uint64 // threads that were started by others that are measured
	Outputs uint64 // records, on CPUs that came online later
}

// Recorder measures from Enable to Finish. It is not safe for concurrent use.
type Recorder struct {
	objects *ebpf.Collection
	links   []link.Link
	sched   textRange
	stacks  map[uint64]Stack
}

// textRange is a part of the kernel's text.
type textRange struct{ start, end uint64 }

// Open loads and attaches what is needed. Nothing is measured yet.
func Open(o Options) (*Recorder, error) {
	if len(o.Cgroups) > maxCgroups {
		return nil, fmt.Errorf("off-CPU time is measured for at most %d cgroups, not %d", maxCgroups, len(o.Cgroups))
	}
	r := &Recorder{stacks: make(map[uint64]Stack)}
	var err error
	if !o.NoKernel {
		if r.sched, err = findScheduler("/proc/kallsyms"); err != nil {
			return nil, err
		}
	}
	if err := r.open(o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Recorder) open(o Options) error {
	if err := r.load(o); err != nil {
		return explain("load the BPF programs that measure off-CPU time", err)
	}
	for _, cpu := range o.CPUs {
		if err := r.objects.Maps[offcpuMapCpus].Put(uint32(cpu), uint8(1)); err != nil {
			return fmt.Errorf("measure off-CPU time on CPU %d: %w", cpu, err)
		}
	}
	for i, dir := range o.Cgroups {
		if err := r.objects.Maps[offcpuMapCgroups].Put(uint32(i), uint32(dir.Fd())); err != nil {
			return fmt.Errorf("measure off-CPU time in the cgroup %s: %w. It has to be one of cgroup2", dir.Name(), err)
		}
	}
	if _, err := r.objects.Programs[offcpuProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return explain("look up this process in BPF", err)
	}
	programs := []string{offcpuProgOnExit, offcpuProgOnSwitch}
	if o.ByThread && o.Inherit {
		programs = append(programs, offcpuProgOnNewtask)
	}
	for _, name := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: r.objects.Programs[name]})
		if err != nil {
			return explain("attach the BPF program "+name, err)
		}
		r.links = append(r.links, l)
	}
	return nil
}

func (r *Recorder) load(o Options) error {
	spec, err := loadOffcpu()
	if err != nil {
		return err
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	types := btf.NewCache() // decoding the kernel's takes longer than all else
	hasState, err := switchTellsState(types)
	if err != nil {
		return err
	}
	spec.Maps[offcpuMapCpus].MaxEntries = uint32(possible)
	err = errors.Join(
		spec.Variables[offcpuVarThreshold].Set(uint64(o.Threshold)),
		spec.Variables[offcpuVarHasPrevState].Set(hasState),
		spec.Variables[offcpuVarByThread].Set(o.ByThread),
		spec.Variables[offcpuVarByCpu].Set(o.CPUs != nil),
		spec.Variables[offcpuVarNrCgroups].Set(uint32(len(o.Cgroups))),
		spec.Variables[offcpuVarKernelStacks].Set(!o.NoKernel),
		spec.Variables[offcpuVarUserStacks].Set(!o.NoUser))
	if err != nil {
		return err
	}
	r.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	return err
}

// switchTellsState reports whether the tracepoint sched_switch has an argument for the state of the task that leaves the CPU (Linux 5.18).
func switchTellsState(cache *btf.Cache) (bool, error) {
	types, err := cache.Kernel()
	if err != nil {
		return false, err
	}
	var def *btf.Typedef
	if err := types.TypeByName("btf_trace_sched_switch", &def); err != nil {
		return false, err
	}
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return false, fmt.Errorf("btf_trace_sched_switch is a %v", def.Type)
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return false, fmt.Errorf("btf_trace_sched_switch is a pointer to %v", pointer.Target)
	}
	const withState = 5 // context, preempt, prev, next, prev_state
	return len(proto.Params) >= withState, nil
}

// explain says what a refusal needs.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. Run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Output lets what is told of on a CPU go to a perf event: a software event bpf-output that is open for all tasks on that CPU, whose
// samples have raw data for Decode.
func (r *Recorder) Output(cpu, fd int) error {
	if err := r.objects.Maps[offcpuMapOutputs].Put(uint32(cpu), uint32(fd)); err != nil {
		return fmt.Errorf("let a BPF program write to the ring buffer of CPU %d: %w", cpu, err)
	}
	return nil
}

// Add adds a thread to those that are measured, with Options.ByThread.
func (r *Recorder) Add(tid int) error {
	err := r.objects.Maps[offcpuMapTargets].Put(uint32(tid), uint8(1))
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("off-CPU time is measured of at most %d threads, or of all: %w", r.objects.Maps[offcpuMapTargets].MaxEntries(), err)
	}
	if err != nil {
		return fmt.Errorf("measure off-CPU time of thread %d: %w", tid, err)
	}
	return nil
}

// Enable begins to measure, or stops: who is blocked then is measured to the end of that.
func (r *Recorder) Enable(on bool) error {
	if err := r.objects.Variables[offcpuVarEnabled].Set(on); err != nil {
		return fmt.Errorf("start or stop measuring off-CPU time: %w", err)
	}
	return nil
}

// Mark writes a record to the perf event of this CPU, which tells the time by the clock of the event.
func (r *Recorder) Mark() error {
	if _, err := r.objects.Programs[offcpuProgMark].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	return nil
}

const rawSize = 40 // struct blocked of offcpu.bpf.c

// Decode decodes the raw data of a sample; mark is true for that of Mark.
func (r *Recorder) Decode(raw []byte) (b Blocked, mark bool, err error) {
	if len(raw) < rawSize {
		return Blocked{}, false, fmt.Errorf("a record of off-CPU time has %d bytes, and should have %d", len(raw), rawSize)
	}
	ne := binary.NativeEndian
	if ne.Uint32(raw[36:]) != 0 {
		return Blocked{}, true, nil
	}
	b = Blocked{Time: time.Duration(ne.Uint64(raw)), Cgroup: ne.Uint64(raw[16:]), PID: ne.Uint32(raw[24:]), TID: ne.Uint32(raw[28:]),
		CPU: ne.Uint32(raw[32:])}
	b.Stack, err = r.stack(ne.Uint64(raw[8:]))
	return b, false, err
}

// stack is the stack with a hash.
func (r *Recorder) stack(hash uint64) (Stack, error) {
	const none = 0
	if hash == none {
		return Stack{}, nil
	}
	if s, known := r.stacks[hash]; known {
		return s, nil
	}
	var v offcpuStack
	if err := r.objects.Maps[offcpuMapStacks].Lookup(hash, &v); err != nil {
		return Stack{}, fmt.Errorf("read the BPF map %s: %w", offcpuMapStacks, err)
	}
	kernel := v.Kernel[:min(int(v.NrKernel), len(v.Kernel))]
	user := v.User[:min(int(v.NrUser), len(v.User))]
	s := Stack{Kernel: append([]uint64(nil), r.sched.outside(kernel)...), User: append([]uint64(nil), user...)}
	r.stacks[hash] = s
	return s, nil
}

// Sums returns what was added up, and begins anew.
func (r *Recorder) Sums() ([]Blocked, error) {
	sums := r.objects.Maps[offcpuMapSums]
	keys, err := all[offcpuSumKey, offcpuSum](sums)
	if err != nil {
		return nil, err
	}
	var found []Blocked
	for _, key := range keys {
		var v offcpuSum
		err := sums.LookupAndDelete(key, &v)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, fmt.Errorf("read the BPF map %s: %w", offcpuMapSums, err)
		}
		b := Blocked{Time: time.Duration(v.Time), PID: v.Pid, TID: v.Tid, CPU: v.Cpu, Cgroup: v.Cgroup}
		if b.Stack, err = r.stack(key.Stack); err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	return found, nil
}

// all are the keys of a map. Those that come and go meanwhile may be missing.
func all[K, V any](m *ebpf.Map) (keys []K, err error) {
	const batch = 1024
	k, v := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, k, v, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read a BPF map: %w", err)
		}
		keys = append(keys, k[:n]...)
		if err != nil { // that was all
			return keys, nil
		}
	}
}

// Finish ends measuring. It returns how long those have been blocked by now that still are.
func (r *Recorder) Finish() ([]Blocked, error) {
	if err := r.detach(); err != nil {
		return nil, err
	}
	if err := kernel.WaitForBPF(); err != nil {
		return nil, err
	}
	now, err := monotonic()
	if err != nil {
		return nil, err
	}
	threads := r.objects.Maps[offcpuMapThreads]
	keys, err := all[uint32, offcpuThread](threads)
	if err != nil {
		return nil, err
	}
	var found []Blocked
	for _, key := range keys {
		var v offcpuThread
		if err := threads.Lookup(key, &v); err != nil {
			return nil, fmt.Errorf("read the BPF map %s: %w", offcpuMapThreads, err)
		}
		if v.Since == 0 || v.Since > now {
			continue
		}
		b := Blocked{Time: time.Duration(now - v.Since), PID: v.Pid, TID: v.Tid, Cgroup: v.Cgroup}
		if b.Stack, err = r.stack(v.Stack); err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	return found, nil
}

// monotonic is the clock of bpf_ktime_get_ns.
func monotonic() (uint64, error) {
	const clockMonotonic = 1 // include/uapi/linux/time.h
	now, _, err := kernel.ClockAndWall(clockMonotonic)
	return now, err
}

// Lost tells what there was no room for.
func (r *Recorder) Lost() (Lost, error) {
	var v offcpuLosses
	if err := r.objects.Variables[offcpuVarLost].Get(&v); err != nil {
		return Lost{}, fmt.Errorf("read what there was no room for: %w", err)
	}
	return Lost{Threads: v.Threads, Stacks: v.Stacks, Targets: v.Targets, Outputs: v.Outputs}, nil
}

// String says what was lost; it is empty if nothing was.
func (l Lost) String() string {
	var parts []string
	add := func(n uint64, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(l.Threads, "%d times that a thread was blocked are not counted, as too many threads were")
	add(l.Stacks, "%d times the stack is missing, as there are too many")
	add(l.Targets, "%d threads that were started are left out, as there are too many")
	add(l.Outputs, "%d samples were on CPUs that came online later, and are lost")
	return strings.Join(parts, "; ")
}

func (r *Recorder) detach() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	r.links = nil
	return errors.Join(errs...)
}

// Close frees everything. It may be called for nil.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	err := r.detach()
	if r.objects != nil {
		r.objects.Close()
	}
	return err
}
