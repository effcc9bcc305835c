package sample

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/userstack"
)

// counter adds up samples in the kernel (bpf/sample.bpf.c), and reads the sums. Only counts and symbol are safe for concurrent use.
type counter struct {
	generations
	objects []*ebpf.Collection // one per event
	waits   *waits             // nil without off-CPU time, or before attachWaits
	events  int                // number of events that have counts
	command bool               // the target is a command, which counts from its execution on
	links   []link.Link        // of the programs that follow processes

	tables *userstack.Tables // nil if user stacks are walked by frame pointers only

	types *btf.Spec  // the kernel types that the programs know; nil: all kernel types
	all   *btf.Cache // kernel types, for programs whose attachment needs them

	asking sync.Mutex      // guards named and the program for symbols
	named  []replay.Symbol // cached symbols of the kernel itself, by address
}

// Sizes of the maps in entries: initial sizes, and the maximum.
const (
	defaultSums   = 32 << 10
	defaultChains = 64 << 10
	mostEntries   = 1 << 20
)

// settings configure the programs. Each is a constant of the programs, or decides which programs and maps are loaded.
type settings struct {
	Keys
	kernel, user bool // parts of stacks to take
	noIdle       bool
	waits        bool           // measure off-CPU time too
	command      bool           // the target is a command
	follows      bool           // events are opened on CPUs, and programs keep only the samples of some processes
	tables       userstack.Need // which processes get unwind tables
	allowance    *allowance.Allowance
	events       int
	rate         uint64        // maximum number of samples per second; 0 if unknown
	entries      uint32        // initial size of each map; 0 for the default
	every        time.Duration // the length of an interval; 0 for a single one

	ips      []Range            // keep samples whose instruction pointer is in one of these; nil for all
	programs []Range            // keep samples with an instruction pointer or a caller in one of these; nil for all
	filters  []asm.Instructions // per event; nil for none
	access   asm.Instructions   // reads accessValues; nil if no key needs them
	allTypes bool               // filters use kernel types that the program does not
}

// newCounter loads the program once per event.
func newCounter(o settings) (*counter, error) {
	c := &counter{generations: generations{byStack: o.Stack}, events: o.events, command: o.command, all: btf.NewCache()}
	if err := c.load(o); err != nil {
		return nil, errors.Join(explain("load the BPF program that counts samples", err), c.Close())
	}
	if _, err := c.first.Programs[sampleProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return nil, errors.Join(explain("look up this process in BPF", err), c.Close())
	}
	return c, nil
}

func (c *counter) load(o settings) (err error) {
	if c.spec, err = loadSample(); err != nil {
		return err
	}
	if err := kernel.PrepareReads(c.spec.Programs); err != nil {
		return err
	}
	if o.allTypes {
		c.types = nil
	} else if c.types, err = kernel.TypesOf(c.spec.Types); err != nil {
		c.types = nil // the library searches elsewhere, and its error lists where
	}
	unwinds := o.Stack && o.user && hasLoops()
	if unwinds {
		userstack.DefaultLimits.Resize(c.spec)
	}
	if o.events >= mostEvents { // off-CPU time needs one more
		return fmt.Errorf("%d events: there is room for %d", o.events, mostEvents-1)
	}
	if err := setVariables(c.spec, map[string]any{
		sampleVarByStack: o.Stack, sampleVarByIp: o.IP, sampleVarByPid: o.PID, sampleVarByTid: o.TID, sampleVarByComm: o.Comm, sampleVarByCpu: o.CPU,
		sampleVarByCgroup: o.Cgroup, sampleVarByPriority: o.Priority, sampleVarByState: o.State, sampleVarByAddr: o.Addr,
		sampleVarByAccess:     o.access != nil,
		sampleVarKernelStacks: o.kernel, sampleVarUserStacks: o.user, sampleVarNoIdle: o.noIdle, sampleVarIsArm64: runtime.GOARCH == "arm64",
		sampleVarUnwinds: unwinds, sampleVarFollows: o.follows,
	}); err != nil {
		return err
	}
	if err := setRanges(c.spec, o.ips, o.programs); err != nil {
		return err
	}
	if !o.follows {
		c.spec.Maps[sampleMapFollowed].MaxEntries = 1
	}
	sums, chains := o.sums(), uint32(defaultChains)
	if o.entries > 0 {
		sums, chains = o.entries, o.entries
	}
	c.spec.Maps[sampleMapRing].MaxEntries = ringSize(runtime.NumCPU())
	if !o.Stack {
		chains, c.spec.Maps[sampleMapRing].MaxEntries = 1, uint32(os.Getpagesize())
	}
	if err := c.makeTables(sums, chains); err != nil {
		return err
	}
	if err := c.loadFirst(o.follows); err != nil {
		return err
	}
	if c.ring, err = ringbuf.NewReader(c.first.Maps[sampleMapRing]); err != nil {
		return fmt.Errorf("map the BPF map %s: %w", sampleMapRing, err)
	}
	if o.waits {
		c.events++
	}
	for event := range o.events {
		if err := c.loadFor(event, o.filters[event], o.access); err != nil {
			return err
		}
	}
	if err := c.useTables(); err != nil {
		return err
	}
	if unwinds {
		c.tables, err = userstack.New(c.first.Maps, c.first.Variables[userstack.Wants], userstack.DefaultLimits, o.tables, o.allowance)
	}
	return err
}

// hasLoops reports whether programs can walk stacks with unwind tables, for which they need bpf_loop (Linux 5.17).
func hasLoops() bool { return features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop) == nil }

// mostEvents is MAX_EVENTS of sample.bpf.c.
const mostEvents = 64

// loadFirst creates the maps that all programs share, and loads the programs that bperf runs itself.
func (c *counter) loadFirst(follows bool) (err error) {
	spec := c.spec.Copy()
	withoutWaits(spec)
	delete(spec.Programs, sampleProgOnSample)
	if !follows {
		withoutFollowing(spec)
	}
	if c.first, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: c.types}}); err != nil {
		return err
	}
	if c.encoded, err = c.first.Maps[sampleMapEncoded].Memory(); err != nil {
		return fmt.Errorf("map the BPF map %s: %w", sampleMapEncoded, err)
	}
	return nil
}

// withoutReader removes the programs that only this process runs, and those that follow processes, from a collection.
func withoutReader(spec *ebpf.CollectionSpec) {
	withoutFollowing(spec)
	for _, name := range []string{sampleProgSetup, sampleProgOnDrain, sampleProgOnSymbol} {
		delete(spec.Programs, name)
	}
}

// shared returns the maps that all programs share: all except the constants.
func (c *counter) shared() map[string]*ebpf.Map {
	shared := maps.Clone(c.first.Maps)
	delete(shared, ".rodata")
	return shared
}

// loadFor loads the program of an event, with the index of the event as a constant. filter and access replace functions of the program unless they are
// nil.
func (c *counter) loadFor(event int, filter, access asm.Instructions) error {
	spec := c.spec.Copy()
	withoutWaits(spec)
	withoutReader(spec)
	program := spec.Programs[sampleProgOnSample]
	for name, code := range map[string]asm.Instructions{"filter": filter, "read_access": access} {
		if code == nil {
			continue
		}
		var err error
		if program.Instructions, err = withFunction(program.Instructions, name, code); err != nil {
			return err
		}
	}
	if err := setVariables(spec, map[string]any{sampleVarEvent: uint32(event)}); err != nil {
		return err
	}
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: c.shared(), Programs: ebpf.ProgramOptions{KernelTypes: c.types}})
	if err != nil {
		return err
	}
	c.objects = append(c.objects, objects)
	return nil
}

func setVariables(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// sums returns the initial number of entries for sums. They last for some seconds, so that none is lost while this process waits for a CPU. Sums of
// intervals are read often, so that fewer are enough: the kernel spends milliseconds on a large map.
func (o *settings) sums() uint32 {
	const seconds, least, most = 8, 1 << 10, 128 << 10
	sums := uint32(defaultSums)
	if o.rate > 0 && o.every > 0 && o.every < seconds*time.Second/2 {
		sums = least
	}
	for sums < most && uint64(sums) < seconds*o.rate {
		sums *= 2
	}
	return sums
}

// program returns the descriptor of the program of an event.
func (c *counter) program(event int) int { return c.objects[event].Programs[sampleProgOnSample].FD() }

// counts returns the counts of all events so far. With off-CPU time, the last element is that of blocked threads.
func (c *counter) counts() ([]sampleCounts, error) {
	var all [mostEvents]sampleCounts
	if err := c.first.Variables[sampleVarCounted].Get(&all); err != nil {
		return nil, fmt.Errorf("read how many samples were counted: %w", err)
	}
	return all[:c.events], nil
}

// Close frees everything. c may be nil.
func (c *counter) Close() error {
	if c == nil {
		return nil
	}
	for _, o := range c.objects {
		o.Close()
	}
	errs := []error{c.waits.close(), c.unfollow(), c.generations.close()}
	if c.tables != nil {
		errs = append(errs, c.tables.Close())
	}
	return errors.Join(errs...)
}

// explain adds the missing capabilities to a permission error.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. %s", what, err, kernel.Remedy("Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF"))
	}
	return fmt.Errorf("%s: %w", what, err)
}
