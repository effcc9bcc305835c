// Package offcpu measures how long threads are blocked, by the stack at which they left the CPU (bpf/offcpu.bpf.c). A thread is blocked from a
// switch in state interruptible or uninterruptible until it runs again. Preempted and stopped threads are not blocked. Kernel threads are not
// measured.
//
// The package needs Linux 5.15, and root or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
package offcpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/kernel"
)

// Options select what is measured.
type Options struct {
	Selection
	Threshold        time.Duration // a blocked time of at least Threshold is a record of its own at its end; shorter times are summed up
	NoKernel, NoUser bool          // omit the kernel or user part of stacks
}

// Blocked is a time for which a thread was blocked, or the sum of several with the same stack.
type Blocked struct {
	Time     time.Duration
	PID, TID uint32 // in the PID namespace of this process
	CPU      uint32 // CPU on which the thread ran next; in a sum, the last one
	Cgroup   uint64
	Stack    Stack
}

// Stack is a stack, innermost frame first. The kernel part begins outside of the scheduler if the scheduler's addresses are known.
type Stack struct {
	Kernel, User []uint64
}

// Lost are the numbers of lost measurements. Unless a comment names another reason, a BPF map was full.
type Lost struct {
	Threads uint64 // times that a thread was blocked
	Stacks  uint64 // stacks; their times are not lost
	Targets uint64 // threads that were started by measured threads
	Outputs uint64 // records on CPUs that came online later
	Missed  uint64 // runs that the kernel skipped because the program was already running on that CPU (Linux 5.12)
}

// Recorder measures from Enable to Finish. It is not safe for concurrent use.
type Recorder struct {
	*Switches
	objects *ebpf.Collection
	sched   Scheduler
	stacks  map[uint64]Stack
}

// Open loads and attaches the BPF programs. They measure nothing before Enable.
func Open(o Options) (*Recorder, error) {
	r := &Recorder{stacks: make(map[uint64]Stack)}
	var err error
	if !o.NoKernel {
		if r.sched, err = FindScheduler("/proc/kallsyms"); err != nil {
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
	if _, err := r.objects.Programs[offcpuProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return explain("look up this process in BPF", err)
	}
	var err error
	r.Switches, err = o.Attach(r.objects, offcpuProgOnExit, offcpuProgOnSwitch)
	return err
}

func (r *Recorder) load(o Options) error {
	spec, err := loadOffcpu()
	if err != nil {
		return err
	}
	types := btf.NewCache() // decoding the kernel's BTF takes longer than everything else
	err = errors.Join(
		kernel.PrepareReads(spec.Programs),
		o.Prepare(spec, types),
		spec.Variables[offcpuVarThreshold].Set(uint64(o.Threshold)),
		spec.Variables[offcpuVarKernelStacks].Set(!o.NoKernel),
		spec.Variables[offcpuVarUserStacks].Set(!o.NoUser))
	if err != nil {
		return err
	}
	r.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	return err
}

// Output sends the records of a CPU to a perf event, given by its descriptor. It must be a software event bpf-output that is open for all tasks on
// that CPU. Decode decodes the raw data of its samples.
func (r *Recorder) Output(cpu, fd int) error {
	if err := r.objects.Maps[offcpuMapOutputs].Put(uint32(cpu), uint32(fd)); err != nil {
		return fmt.Errorf("let a BPF program write to the ring buffer of CPU %d: %w", cpu, err)
	}
	return nil
}

// Mark writes a record to the perf event of this CPU. The time of the record is the current time on the event's clock.
func (r *Recorder) Mark() error {
	if _, err := r.objects.Programs[offcpuProgMark].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	return nil
}

const rawSize = 40 // struct blocked of offcpu.bpf.c

// Decode decodes the raw data of a sample. mark reports whether Mark has written the record.
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

// stack returns the stack with a hash.
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
	s := Stack{Kernel: append([]uint64(nil), r.sched.Outside(kernel)...), User: append([]uint64(nil), user...)}
	r.stacks[hash] = s
	return s, nil
}

// Sums returns the sums of blocked times below the threshold, and resets them.
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

// all returns the keys of a map. Keys that are added or removed while it runs may be missing.
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
		if err != nil { // the end of the map
			return keys, nil
		}
	}
}

// Finish stops measuring. It returns the threads that are still blocked, with the time since they blocked.
func (r *Recorder) Finish() ([]Blocked, error) {
	if err := r.Detach(); err != nil {
		return nil, err
	}
	now, err := Now()
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

// Now returns the current time of bpf_ktime_get_ns's clock, in ns.
func Now() (uint64, error) {
	const clockMonotonic = 1 // include/uapi/linux/time.h
	now, _, err := kernel.ClockAndWall(clockMonotonic)
	return now, err
}

// Lost returns the numbers of lost measurements.
func (r *Recorder) Lost() (Lost, error) {
	var v offcpuLosses
	if err := r.objects.Variables[offcpuVarLost].Get(&v); err != nil {
		return Lost{}, fmt.Errorf("read what there was no room for: %w", err)
	}
	targets, err := r.LostTargets()
	missed, missedErr := r.missed()
	return Lost{Threads: v.Threads, Stacks: v.Stacks, Targets: targets, Outputs: v.Outputs, Missed: missed}, errors.Join(err, missedErr)
}

// String describes the losses. It returns "" if there are none.
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
	add(l.Missed, "%d switches of threads were missed, as the kernel does not run a program that is running on the CPU")
	return strings.Join(parts, "; ")
}

// Close detaches and unloads the programs. r may be nil.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	err := r.Switches.Close()
	if r.objects != nil {
		r.objects.Close()
	}
	return err
}
