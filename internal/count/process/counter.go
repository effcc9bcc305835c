// Package process counts events and CPU time of the whole machine by process or by cgroup. At each context switch, a BPF program adds the
// growth of the CPU's perf events to the sum of the task that leaves the CPU (bpf/tasks.bpf.c). So one perf event per event and CPU is
// enough, however many processes there are.
//
// It needs Linux 5.10, and root or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Key selects whether there is a sum for each process, each thread or each cgroup.
type Key string

// The keys.
const (
	ByProcess Key = "process"
	ByThread  Key = "thread"
	ByCgroup  Key = "cgroup" // of v2
)

// Elsewhere is the ID of the sum of all processes, or threads, that are neither in this PID namespace nor in one below it.
const Elsewhere = 1 << 32

// MaxEvents is the maximum number of events, as in tasks.bpf.c.
const MaxEvents = 16

// Reason is why a thread is not on a CPU.
type Reason int

// The reasons, as in tasks.bpf.c.
const (
	Runnable Reason = iota // it waits for a CPU: it was preempted or woken up, or its cgroup has used up its quota
	Sleeping               // it waits for something else, and a signal ends the wait; or it is stopped
	Blocked                // it waits, and no signal ends the wait: mostly for disks, and for locks in the kernel

	Reasons = int(iota) // the number of reasons
)

// String returns the reason as a label.
func (r Reason) String() string { return [...]string{"runnable", "sleeping", "blocked"}[r] }

// threadsPerSum is the number of threads whose time off the CPUs can be measured, for each possible sum. Each takes some 80 bytes, even if
// it is unused.
const threadsPerSum = 2

// mostSums is the maximum number of processes or cgroups. Each takes some 500 bytes, even if it is unused.
const mostSums = 16384

// Sum has the counts of a process or a cgroup since the counter was opened. A cgroup's counts do not include those of cgroups below it.
type Sum struct {
	ID       uint64              // process or thread ID in this process's PID namespace, or Elsewhere; or the cgroup's ID
	Comm     string              // of a process: its name when it last left a CPU
	Time     time.Duration       // on a CPU
	Switches uint64              // number of times that one of its tasks left a CPU
	Readings []perfevent.Reading // of the events, in order; 0 for those that cannot be counted

	// OffCPU has, with Options.OffCPU, the time that its threads were on no CPU, by reason. The time is counted when the thread leaves a CPU
	// the next time. Without CONFIG_SCHED_INFO of the kernel, the wait for a CPU after the end of another wait counts as part of that one.
	OffCPU [Reasons]time.Duration

	// Above has, for a cgroup, the IDs of the cgroups on the way to it, from below the root, at most 6. So a reader can say whose it was
	// when it is gone already.
	Above []uint64
}

// Reading has the counts since the counter was opened.
type Reading struct {
	Sums []Sum

	// Counts of processes or cgroups for which there was no room.
	LostTime     time.Duration
	LostSwitches uint64
	LostOff      uint64 // times that a thread left a CPU and there was no room to measure until when

	// Run time of the BPF programs themselves, while the kernel measures it (BPF_ENABLE_STATS).
	ProgramTime time.Duration
}

// Counter counts from Open to Close. It is not safe for concurrent use.
type Counter struct {
	events   int
	cpus     []int
	cpusOnly bool
	perf     perf
	array    *ebpf.Map         // of perf
	rows     [MaxEvents]uint32 // of the events in it
	own      bool              // perf and array are not shared
	apart    error             // why they are not, if that was asked for
	objects  *ebpf.Collection
	link     link.Link
	keys     []uint64
	values   []tasksSum
}

// perf has the perf events that the BPF programs read.
type perf interface {
	count.Counter
	Failed() error // of following CPUs that went offline or came online, or nil
}

// Options are the options of Open.
type Options struct {
	// Dir is the directory in bpffs of the sessions to share perf events with, usually shared.Dir; empty to share none. Without the means to
	// share, the Counter opens its own events: Apart returns the reason.
	Dir string

	// OffCPU measures how long threads are on no CPU, except those of the root cgroup.
	OffCPU bool

	// CPUsOnly counts by CPU alone: nothing runs at context switches, and there are no sums.
	CPUsOnly bool
}

// Open begins to count the events of a list, on each CPU while it is online.
func Open(list event.List, by Key, o Options) (*Counter, error) { return open(list, by, o, mostSums) }

func open(list event.List, by Key, o Options, most uint32) (*Counter, error) {
	if err := check(list); err != nil {
		return nil, err
	}
	c := &Counter{events: len(list.Events())}
	if err := c.open(list, by, o, most); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// check returns an error for a list that cannot be counted by process or cgroup.
func check(list event.List) error {
	events := list.Events()
	if len(events) > MaxEvents {
		return fmt.Errorf("%d events are too many to count by process or cgroup: %d are possible", len(events), MaxEvents)
	}
	for _, e := range events {
		if err := Check(e); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error for an event that cannot be counted by process or cgroup on any machine. Open returns the same error.
func Check(e *event.Event) error {
	switch {
	case e.Tool != event.ToolNone:
		return fmt.Errorf("%s is no event of a CPU: it cannot be counted by process or cgroup", e.Name)
	case e.Uncore:
		return fmt.Errorf("%s counts for a package or a node: it cannot be counted by process or cgroup", e.Name)
	case isSoftware(e, perfdata.SoftwareCgroupSwitches):
		return fmt.Errorf("%s cannot be counted by process or cgroup: the kernel counts it when the next one runs already", e.Name)
	}
	return nil
}

func isSoftware(e *event.Event, config uint64) bool {
	return e.Attr.Type == perfdata.TypeSoftware && e.Attr.Config == config
}

func (c *Counter) open(list event.List, by Key, o Options, most uint32) error {
	machine, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return err
	}
	offline, err := procfs.OfflineCPUs()
	if err != nil {
		return err
	}
	c.cpus = slices.Concat(machine.CPUs, offline)
	var begin func() error
	if o.Dir != "" {
		begin, c.apart = c.openShared(list, machine, by, o.Dir)
	}
	if c.perf == nil {
		if begin, err = c.openOwn(list, machine); err != nil {
			return err
		}
	}
	if err := c.load(list, by, o, most); err != nil {
		return explain("load the BPF program that counts by "+string(by), err)
	}
	if err := errors.Join(begin(), c.perf.Enable()); err != nil {
		return err
	}
	if _, err := c.objects.Programs[tasksProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return explain("look up this process in BPF", err)
	}
	if c.cpusOnly = o.CPUsOnly; c.cpusOnly {
		return nil
	}
	c.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_switch", Program: c.objects.Programs[tasksProgOnSwitch]})
	if err != nil {
		return explain("attach a BPF program to the raw tracepoint sched_switch", err)
	}
	return c.bring() // a task that is on a CPU now counts from now on
}

// openOwn opens perf events for this counter only. The programs have no events to read until begin.
func (c *Counter) openOwn(list event.List, machine target.Target) (begin func() error, err error) {
	own, err := direct.Open(list, machine, count.Options{LaterCPUs: true})
	if err != nil {
		return nil, err
	}
	c.perf, c.own = own, true
	if c.array, err = direct.NewArray(tasksMapEvents, c.events); err != nil {
		return nil, explain("create the BPF map "+tasksMapEvents, err)
	}
	for i := range c.events {
		c.rows[i] = uint32(i)
	}
	// The program adds an element's growth since it last read that element. So before another event takes the element, the program must
	// run once with the element empty.
	return func() error { return own.Fill(c.array, c.bringOn) }, nil
}

// openShared opens perf events that this counter shares with other sessions.
func (c *Counter) openShared(list event.List, machine target.Target, by Key, dir string) (begin func() error, err error) {
	where := shared.Where{Dir: dir, Unled: true, Target: "each " + string(by)}
	s, err := shared.Open(where, list, machine, shared.Options{Options: count.Options{LaterCPUs: true}})
	if err != nil {
		return nil, err
	}
	for i := range c.events {
		if s.Err(i) == nil {
			c.rows[i] = uint32(s.Row(i))
		}
	}
	c.perf, c.array = s, s.Array()
	// When another session has opened the events of a CPU that came online, the program must read them before they have counted as
	// long as their predecessors: it knows them by that.
	return func() error { s.AfterCPUs(c.bring); return nil }, nil
}

// Apart returns why the counter shares no perf events though Options.Dir asked for it, or nil.
func (c *Counter) Apart() error { return c.apart }

func (c *Counter) load(list event.List, by Key, o Options, most uint32) error {
	spec, err := loadTasks()
	if err != nil {
		return err
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	delete(spec.Maps, tasksMapEvents) // the programs use c.array
	var switches uint64
	for i, e := range list.Events() {
		if isSoftware(e, perfdata.SoftwareContextSwitches) {
			switches |= 1 << i
		}
	}
	spec.Maps[tasksMapSums].MaxEntries = most
	hasState := false
	if o.OffCPU {
		spec.Maps[tasksMapThreads].MaxEntries = threadsPerSum * most
		if hasState, err = kernel.SwitchHasState(btf.NewCache()); err != nil {
			return err
		}
	}
	err = errors.Join(
		direct.UseMaps(spec.Programs, map[string]*ebpf.Map{tasksMapEvents: c.array}),
		kernel.PrepareReads(spec.Programs),
		spec.Variables[tasksVarNrCpus].Set(uint32(possible)),
		spec.Variables[tasksVarNrEvents].Set(uint32(c.events)),
		spec.Variables[tasksVarRows].Set(c.rows),
		spec.Variables[tasksVarSwitchEvents].Set(switches),
		spec.Variables[tasksVarOffCpu].Set(o.OffCPU),
		spec.Variables[tasksVarHasPrevState].Set(hasState),
		spec.Variables[tasksVarByCgroup].Set(by == ByCgroup),
		spec.Variables[tasksVarByThread].Set(by == ByThread))
	if err != nil {
		return err
	}
	c.objects, err = ebpf.NewCollection(spec)
	return err
}

// explain adds a remedy to an error if permissions are missing.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. %s", what, err, kernel.Remedy("Run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Err returns why this machine cannot count an event of the list, or nil if it can.
func (c *Counter) Err(event int) error { return c.perf.Err(event) }

// bring updates the sums of the tasks that are on a CPU now. It skips CPUs that are offline.
func (c *Counter) bring() error {
	for _, cpu := range c.cpus {
		if err := c.bringOn(cpu); err != nil {
			return fmt.Errorf("read the counters of CPU %d: %w", cpu, err)
		}
	}
	return nil
}

func (c *Counter) bringOn(cpu int) error {
	_, err := kernel.RunOnCPU(c.objects.Programs[tasksProgBring], cpu, [8]byte{})
	if errors.Is(err, syscall.ENXIO) {
		return nil
	}
	return err
}

// Read returns the sums up to now, in no order.
func (c *Counter) Read() (*Reading, error) {
	if c.cpusOnly {
		return new(Reading), c.perf.Failed()
	}
	if err := errors.Join(c.perf.Failed(), c.bring()); err != nil {
		return nil, err
	}
	r := new(Reading)
	var err error
	if r.Sums, err = c.Sums(); err != nil {
		return nil, err
	}
	var cpus []tasksCpu
	if err := c.objects.Maps[tasksMapCpus].Lookup(uint32(0), &cpus); err != nil {
		return nil, fmt.Errorf("read the BPF map %s: %w", tasksMapCpus, err)
	}
	for _, cpu := range cpus {
		r.LostTime += time.Duration(cpu.LostTime)
		r.LostSwitches += cpu.LostSwitches
		r.LostOff += cpu.LostOff
	}
	for _, name := range []string{tasksProgOnSwitch, tasksProgBring} {
		stats, err := c.objects.Programs[name].Stats()
		if err != nil {
			return nil, fmt.Errorf("read the run time of the BPF program %s: %w", name, err)
		}
		r.ProgramTime += stats.Runtime
	}
	return r, nil
}

// ReadCPUs appends the counts of each CPU since the counter was opened to dst: those of all processes, and those without one. They are
// readings of the same perf events as the sums.
func (c *Counter) ReadCPUs(dst []count.Cell) ([]count.Cell, error) { return c.perf.Read(dst) }

// Programs returns the names of the counter's BPF programs by their IDs. They run at each context switch, and at each Read.
func (c *Counter) Programs() (map[uint32]string, error) {
	all := make(map[uint32]string)
	for _, name := range []string{tasksProgOnSwitch, tasksProgBring} {
		info, err := c.objects.Programs[name].Info()
		if err != nil {
			return nil, fmt.Errorf("look up the BPF program %s: %w", name, err)
		}
		id, _ := info.ID()
		all[uint32(id)] = name
	}
	return all, nil
}

// batch is the number of sums that one system call reads.
const batch = 1024

// Sums returns the sums in no order, up to the last context switch of each CPU. Unlike Read, it interrupts no CPU.
func (c *Counter) Sums() ([]Sum, error) {
	if c.cpusOnly {
		return nil, nil
	}
	if c.keys == nil {
		c.keys, c.values = make([]uint64, batch), make([]tasksSum, batch)
	}
	var all []Sum
	var cursor ebpf.MapBatchCursor
	for {
		n, err := c.objects.Maps[tasksMapSums].BatchLookup(&cursor, c.keys, c.values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read the BPF map %s: %w", tasksMapSums, err)
		}
		for i := range n {
			all = append(all, c.sum(c.keys[i], &c.values[i]))
		}
		if err != nil { // the end of the map
			return all, nil
		}
	}
}

func (c *Counter) sum(id uint64, v *tasksSum) Sum {
	comm, _, _ := bytes.Cut(v.Comm[:], []byte{0})
	s := Sum{ID: id, Comm: string(comm), Time: time.Duration(v.Time), Switches: v.Switches, Readings: make([]perfevent.Reading, c.events)}
	for why, ns := range v.Off {
		s.OffCPU[why] = time.Duration(ns)
	}
	for _, above := range v.Above {
		if above != 0 && above != id {
			s.Above = append(s.Above, above)
		}
	}
	for i := range s.Readings {
		e := &v.Events[i]
		s.Readings[i] = perfevent.Reading{Value: e.Counter, Enabled: e.Enabled, Running: e.Running}
	}
	return s
}

// Forget deletes the sum of a process or cgroup that has ended. If it has not ended, a new sum begins at 0.
func (c *Counter) Forget(id uint64) error {
	err := c.objects.Maps[tasksMapSums].Delete(id)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("make room in the BPF map %s: %w", tasksMapSums, err)
	}
	return nil
}

// Close ends counting.
func (c *Counter) Close() error {
	var errs []error
	if c.link != nil {
		errs = append(errs, c.link.Close())
	}
	if c.perf != nil { // before the array: perf changes it until it is closed
		errs = append(errs, c.perf.Close())
	}
	if c.objects != nil {
		c.objects.Close()
	}
	if c.own && c.array != nil {
		errs = append(errs, c.array.Close())
	}
	return errors.Join(errs...)
}
