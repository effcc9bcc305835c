package sample

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/offcpu"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// waits measures off-CPU time: how long threads are blocked (bpf/waits.h).
type waits struct {
	objects  *ebpf.Collection
	switches *offcpu.Switches
	sched    offcpu.Scheduler
	asleep   *ebpf.Program // finds threads that are blocked already
}

// leastWaits is the minimum number of threads that there is room for. Each takes 2 KB.
const leastWaits = 2048

// attachWaits loads and attaches the programs that measure off-CPU time. They share the maps of sums and stacks.
func (c *counter) attachWaits(selection *offcpu.Selection, o settings) (*offcpu.Switches, error) {
	w := &waits{}
	c.waits = w
	var err error
	if o.kernel {
		if w.sched, err = offcpu.FindScheduler("/proc/kallsyms"); err != nil {
			return nil, err
		}
	}
	threads, err := countThreads()
	if err != nil {
		return nil, err
	}
	spec := c.spec.Copy()
	withoutReader(spec)
	delete(spec.Programs, sampleProgOnSample)
	spec.Maps[sampleMapWaits].MaxEntries = max(leastWaits, 2*threads, o.entries)
	cgroups, err := cgroupIDs(selection.Cgroups)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(selection.Prepare(spec, c.all),
		setVariables(spec, map[string]any{sampleVarEvent: uint32(o.events), sampleVarCgroupIds: cgroups})); err != nil {
		return nil, err
	}
	if w.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: c.shared(), Cache: c.all}); err != nil {
		return nil, explain("load the BPF programs that measure off-CPU time", err)
	}
	w.asleep = w.objects.Programs[sampleProgOnAsleep]
	programs := []string{sampleProgOnExit, sampleProgOnSwitch}
	if o.Waker {
		programs = append(programs, sampleProgOnWaking)
	}
	if w.switches, err = selection.Attach(w.objects, programs...); err != nil {
		return nil, err
	}
	if !o.command { // before its execution, a command only waits for it
		w.switches.Enabling, w.switches.Enabled = w.begin, w.seed
	}
	return w.switches, nil
}

// cgroupIDs returns the IDs of cgroups, which are the inode numbers of their directories in cgroup2.
func cgroupIDs(dirs []*os.File) (ids [offcpu.MaxCgroups]uint64, err error) {
	for i, dir := range dirs[:min(len(dirs), len(ids))] {
		info, err := dir.Stat()
		if err != nil {
			return ids, fmt.Errorf("look for the ID of a cgroup: %w", err)
		}
		ids[i] = info.Sys().(*syscall.Stat_t).Ino
	}
	return ids, nil
}

// begin sets the time at which measuring begins.
func (w *waits) begin() error {
	now, err := offcpu.Now()
	if err != nil {
		return err
	}
	if err := w.objects.Variables[sampleVarEnabledAt].Set(now); err != nil {
		return fmt.Errorf("set the start time in the BPF programs: %w", err)
	}
	return nil
}

// seed finds the threads that were blocked before that time.
func (w *waits) seed() error {
	iter, err := link.AttachIter(link.IterOptions{Program: w.asleep})
	if err != nil {
		return explain("look for blocked threads in BPF", err)
	}
	defer func() { _ = iter.Close() }() // it has run by then
	r, err := iter.Open()
	if err != nil {
		return explain("look for blocked threads in BPF", err)
	}
	defer func() { _ = r.Close() }() // opened for reading only
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("look for blocked threads in BPF: %w", err)
	}
	return nil
}

// withoutWaits removes the programs and maps that only attachWaits needs from a collection.
func withoutWaits(spec *ebpf.CollectionSpec) {
	for _, name := range []string{sampleProgOnExit, sampleProgOnSwitch, sampleProgOnWaking, sampleProgOnNewtask, sampleProgOnAsleep} {
		delete(spec.Programs, name)
	}
	for _, name := range []string{sampleMapWaits, sampleMapSeed, sampleMapTargets, sampleMapCpus, sampleMapCgroups} {
		delete(spec.Maps, name)
	}
}

// countThreads returns the number of threads, including kernel threads: the fourth field of /proc/loadavg (proc_loadavg(5)).
func countThreads() (n uint32, err error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("count the threads that there are: %w", err)
	}
	var load [3]float64
	var running uint32
	if _, err := fmt.Sscanf(string(text), "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &n); err != nil {
		return 0, fmt.Errorf("count the threads that there are: /proc/loadavg is %q: %w", text, err)
	}
	return n, nil
}

// still calls each for the threads that are blocked now, with the time until now. The programs must be detached.
func (w *waits) still(each func(*entry) error) error {
	now, err := offcpu.Now()
	if err != nil {
		return err
	}
	const batch = 128
	keys, values := make([]uint32, batch), make([]sampleWait, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, end := w.objects.Maps[sampleMapWaits].BatchLookup(&cursor, keys, values, nil)
		if end != nil && !errors.Is(end, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapWaits, end)
		}
		for i := range values[:n] {
			v := &values[i]
			if v.Since == 0 || v.Since > now {
				continue
			}
			e := &entry{sampleKey: v.Key, sampleSum: sampleSum{Count: 1, Value: now - v.Since, First: now}, callers: stack{v.Stack.Kernel.addresses(), v.Stack.User.addresses()}}
			if err := each(e); err != nil {
				return err
			}
		}
		if end != nil { // ErrKeyNotExist: the end of the map
			return nil
		}
	}
}

// addresses returns the addresses of a part of a stack, without the context markers that the kernel puts into the callchains of some events.
func (f *sampleFrames) addresses() []uint64 {
	return slices.DeleteFunc(slices.Clone(f.Ips[:min(int(f.N), len(f.Ips))]), perfdata.IsContext)
}

// lost returns the number of times that were not counted because the map had no room for the thread, and the number of started threads that are not
// measured because there was no room.
func (w *waits) lost() (times, targets uint64, err error) {
	if err := w.objects.Variables[sampleVarLostWaits].Get(&times); err != nil {
		return 0, 0, fmt.Errorf("read how many threads there was no room for: %w", err)
	}
	targets, err = w.switches.LostTargets()
	return times, targets, err
}

// close detaches and frees the programs. w may be nil.
func (w *waits) close() error {
	if w == nil {
		return nil
	}
	err := w.switches.Close()
	if w.objects != nil {
		w.objects.Close()
	}
	return err
}

// attachWaits attaches the programs for the target, which is known only after the recording has resolved it.
func (s *sampler) attachWaits(selection *offcpu.Selection) (*offcpu.Switches, error) {
	return s.counter.attachWaits(selection, s.settings)
}

// isWait reports whether a sum is that of blocked threads.
func (s *sampler) isWait(e *entry) bool {
	return s.cfg.measuresWaits() && int(e.Subject.Event) == s.settings.events
}

// With Config.Wall, all samples have a tag: its key and its values.
const (
	wallTag = "wall"
	onCPU   = "on-CPU"
	offCPU  = "off-CPU"
)

// wait sets the fields that only sums of blocked threads have.
func (s *sampler) wait(e *entry, sum *replay.Sum) {
	sum.Event = replay.Other(0)
	if s.cfg.Wall {
		sum.Event = 0
	}
	if sum.InKernel() {
		kernel := append([]uint64{sum.IP}, sum.Kernel...)
		setStack(sum, stack{s.counter.waits.sched.Outside(kernel), sum.User})
	}
	if s.cfg.By.Waker {
		sum.Tags = append(sum.Tags, replay.SumTag{Key: "waker", Value: waker(e)})
	}
}

// waker returns the thread that woke a blocked thread: its name, and its process if that is in this PID namespace.
func waker(e *entry) string {
	name := text(e.Subject.WakerComm[:])
	switch {
	case name == "":
		return "unknown"
	case e.Subject.Waker == 0:
		return name
	}
	return fmt.Sprintf("%s:%d", name, e.Subject.Waker)
}

// readStill adds the threads that are blocked at the end.
func (s *sampler) readStill() error {
	return s.counter.waits.still(func(e *entry) error {
		s.still.threads++
		s.still.time += e.Value
		return s.add(e)
	})
}

// OffCPU summarizes how long threads were blocked.
type OffCPU struct {
	Times   uint64        // completed times
	Still   uint64        // threads that are blocked at the end
	Total   time.Duration // of Times and Still
	Lost    uint64        // times that are missing because there was no room for the thread
	Targets uint64        // started threads that are left out because there was no room
	Room    uint64        // number of threads that there was room for
}

// String returns a summary of one or more lines.
func (o OffCPU) String() string {
	s := fmt.Sprintf("Threads were blocked %d times, and %d were at the end: %.3f s in all", o.Times, o.Still, o.Total.Seconds())
	if o.Lost > 0 {
		s += fmt.Sprintf("\n%d times that a thread was blocked are lost, as there was no room for it. There would be room with --map-entries %d", o.Lost, 2*o.Room)
	}
	if o.Targets > 0 {
		s += fmt.Sprintf("\n%d threads that were started are left out, as there are too many. With -a all are measured", o.Targets)
	}
	return s
}

// offCPU returns the summary of blocked threads. c is the last element of counter.counts.
func (s *sampler) offCPU(c *sampleCounts) (*OffCPU, error) {
	w := s.counter.waits
	o := &OffCPU{Times: c.Samples, Still: s.still.threads, Total: time.Duration(c.Value + s.still.time), Room: uint64(w.objects.Maps[sampleMapWaits].MaxEntries())}
	var err error
	o.Lost, o.Targets, err = w.lost()
	return o, err
}

// Check returns an error if a key or filter needs off-CPU time, is not possible with it, or is not possible for the events.
func (c *Config) Check() error {
	if c.By.Waker && !c.measuresWaits() {
		return errors.New("only blocked threads have wakers: measure off-CPU time, too (--off-cpu, --wall)")
	}
	if c.measuresWaits() && len(c.Ranges)+len(c.Programs)+len(c.Functions) > 0 {
		return errors.New("a blocked thread is nowhere on a CPU: --range and -b do not go together with --off-cpu and --wall")
	}
	for _, e := range c.Record.Events.Events() {
		if c.Wall && e.Filter != "" {
			return errors.New("filters look at samples on CPUs: --filter does not go together with --wall")
		}
		if e.Tracepoint != "" && c.By.hasAccess() {
			return fmt.Errorf("%s: samples of tracepoints have no phys_addr, data_src or weight: leave out the tracepoint, or these keys of --by", e.Name)
		}
	}
	return nil
}

func (c *Config) measuresWaits() bool { return c.OffCPU || c.Wall }
