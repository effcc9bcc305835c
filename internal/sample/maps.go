package sample

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

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
	spec    *ebpf.CollectionSpec
	first   *ebpf.Collection   // its maps are shared by all programs
	objects []*ebpf.Collection // one per event
	encoded *ebpf.Memory       // memory through which drain gets sums
	waits   *waits             // nil without off-CPU time, or before attachWaits
	events  int                // number of events that have counts
	command bool               // the target is a command, which counts from its execution on
	links   []link.Link        // of the programs that follow processes

	tables *userstack.Tables // nil if user stacks are walked by frame pointers only

	active uint32 // the generation that programs fill
	sums   [2]*table
	chains [2]*table     // both may be the same table
	before [2]sampleFill // what programs had added to each generation before they began to fill it again
	types  *btf.Spec     // the kernel types that the programs know; nil: all kernel types
	all    *btf.Cache    // kernel types, for programs whose attachment needs them

	asking sync.Mutex      // guards named and the program for symbols
	named  []replay.Symbol // cached symbols of the kernel itself, by address

	ring         *ringbuf.Reader
	last         drained
	buffer       []byte   // copy of encoded
	kernel, user []uint64 // buffers of stackOf
	byStack      bool
	noStack      uint64 // samples whose chains found no room in the ring buffer
	bytes        uint64 // bytes read from maps
}

// table is a hash table that programs fill.
type table struct {
	*ebpf.Map
	count uint64              // number of entries from earlier times
	known map[uint32][]uint64 // chains that were read, by ID
}

func (t *table) size() uint64 { return uint64(t.MaxEntries()) }

// stack has the addresses of a stack, the innermost frame first.
type stack struct{ kernel, user []uint64 }

// Sizes of the maps in entries: initial sizes, and the maximum.
const (
	defaultSums   = 32 << 10
	defaultChains = 64 << 10
	mostEntries   = 1 << 20
)

// settings configure the programs.
type settings struct {
	Keys
	kernel, user bool // parts of stacks to take
	noIdle       bool
	waits        bool // measure off-CPU time too
	command      bool // the target is a command
	follows      bool // events are opened on CPUs, and programs keep only the samples of some processes
	eager        bool // build unwind tables for all processes in records
	allowance    *allowance.Allowance
	events       int
	rate         uint64 // maximum number of samples per second; 0 if unknown
	entries      uint32 // initial size of each map; 0 for the default

	ips      []Range            // keep samples whose instruction pointer is in one of these; nil for all
	programs []Range            // keep samples with an instruction pointer or a caller in one of these; nil for all
	filters  []asm.Instructions // per event; nil for none
	access   asm.Instructions   // reads accessValues; nil if no key needs them
	allTypes bool               // filters use kernel types that the program does not
}

// newCounter loads the program once per event.
func newCounter(o settings) (*counter, error) {
	c := &counter{events: o.events, command: o.command, all: btf.NewCache(), byStack: o.Stack}
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
	sums, chains := sumsFor(o.rate), uint32(defaultChains)
	if o.entries > 0 {
		sums, chains = o.entries, o.entries
	}
	c.spec.Maps[sampleMapRing].MaxEntries = ringSize(runtime.NumCPU())
	if !o.Stack {
		chains, c.spec.Maps[sampleMapRing].MaxEntries = 1, uint32(os.Getpagesize())
	}
	for g := range c.sums {
		if c.sums[g], err = c.newTable(sampleMapSums, sums); err != nil {
			return err
		}
	}
	if c.chains[0], err = c.newTable(sampleMapChains, chains); err != nil {
		return err
	}
	c.chains[1] = c.chains[0]
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
	for g := range c.sums {
		if err := errors.Join(c.use(sampleMapSums, g, c.sums[g]), c.use(sampleMapChains, g, c.chains[g])); err != nil {
			return err
		}
	}
	if unwinds {
		c.tables, err = userstack.New(c.first.Maps, userstack.DefaultLimits, o.eager, o.allowance)
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

// sumsFor returns the initial number of entries for sums. They last for some seconds, so that none is lost while this process waits for a CPU.
func sumsFor(rate uint64) uint32 {
	const seconds, most = 8, 128 << 10
	sums := uint32(defaultSums)
	for sums < most && uint64(sums) < seconds*rate {
		sums *= 2
	}
	return sums
}

// newTable creates a map of one generation.
func (c *counter) newTable(of string, entries uint32) (*table, error) {
	spec := c.spec.Maps[of].InnerMap.Copy()
	spec.Name, spec.MaxEntries = of, entries
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make a BPF map for %d %s: %w", entries, of, err)
	}
	return &table{Map: m, known: make(map[uint32][]uint64)}, nil
}

// use replaces a map of a generation. When it returns, no program uses the old map.
func (c *counter) use(of string, generation int, t *table) error {
	if err := c.first.Maps[of].Put(uint32(generation), uint32(t.FD())); err != nil {
		return fmt.Errorf("put a BPF map into %s: %w", of, err)
	}
	return nil
}

// program returns the descriptor of the program of an event.
func (c *counter) program(event int) int { return c.objects[event].Programs[sampleProgOnSample].FD() }

// filled returns the numbers of entries that programs have added to each generation.
func (c *counter) filled() (f [2]sampleFill, err error) {
	if err := c.first.Variables[sampleVarFilled].Get(&f); err != nil {
		return f, fmt.Errorf("read how full BPF maps are: %w", err)
	}
	return f, nil
}

// fills returns the numbers of entries in the maps of the active generation.
func (c *counter) fills() (sums, chains uint64, err error) {
	f, err := c.filled()
	now, before := f[c.active], c.before[c.active]
	return c.sums[c.active].count + now.Sums - before.Sums, c.chains[c.active].count + now.Chains - before.Chains, err
}

// full reports whether more than half of one of these maps is used.
func (c *counter) full() (bool, error) {
	sums, chains, err := c.fills()
	return 2*sums > c.sums[c.active].size() || 2*chains > c.chains[c.active].size(), err
}

// crowded reports whether more than three quarters of one of these maps are used, which means that bperf read it late.
func (c *counter) crowded() (bool, error) {
	sums, chains, err := c.fills()
	return 4*sums > 3*c.sums[c.active].size() || 4*chains > 3*c.chains[c.active].size(), err
}

// entry is the sum of samples with the same subject and stack.
type entry struct {
	sampleKey
	sampleSum
	stack stack // valid until the next entry
}

// swap makes the other generation active, and then reads the old one. With grow it doubles the size of the maps.
func (c *counter) swap(grow bool, each func(*entry) error) error {
	old, next := int(c.active), int(1-c.active)
	if err := c.readChains(); err != nil { // before swapping: chains of the next generation are still of the last time that it was active
		return err
	}
	if err := c.renew(old, next, grow); err != nil {
		return err
	}
	if err := c.first.Variables[sampleVarGeneration].Set(uint32(next)); err != nil {
		return fmt.Errorf("swap BPF maps: %w", err)
	}
	c.active = uint32(next)
	if err := kernel.WaitForBPF(); err != nil {
		return err
	}
	if err := c.readChains(); err != nil {
		return err
	}
	if err := c.read(old, each); err != nil {
		return err
	}
	return c.leave(old, next)
}

// renew replaces maps of the next generation that have too little room.
func (c *counter) renew(old, next int, grow bool) (err error) {
	_, chains, err := c.fills()
	if err != nil {
		return err
	}
	if size := c.sums[next].size(); grow || 4*c.sums[next].count > size {
		if grow {
			size = min(2*size, mostEntries)
		}
		empty, err := c.newTable(sampleMapSums, uint32(size))
		if err != nil {
			return err
		}
		if err := errors.Join(c.use(sampleMapSums, next, empty), c.sums[next].Close()); err != nil {
			return err
		}
		c.sums[next] = empty
	}
	if size := c.chains[old].size(); 2*chains > size {
		if grow {
			size = min(2*size, mostEntries)
		}
		if c.chains[next], err = c.newTable(sampleMapChains, uint32(size)); err != nil {
			return err
		}
		return c.use(sampleMapChains, next, c.chains[next])
	}
	return nil
}

// read reads the sums of the generation that is not active, and sets them to 0.
func (c *counter) read(g int, each func(*entry) error) error {
	if err := c.first.Variables[sampleVarDrainGeneration].Set(uint32(g)); err != nil {
		return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
	}
	var e entry // reused
	for {
		encoded, err := c.drain()
		if err != nil {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
		}
		if len(encoded) == 0 {
			return nil
		}
		c.bytes += uint64(len(encoded))
		for d := (decoder{data: encoded}); len(d.data) > 0; {
			if e = c.last.sum(&d); d.err != nil {
				return fmt.Errorf("the BPF map %s: %w", sampleMapSums, d.err)
			}
			if c.byStack {
				e.stack = c.stackOf(g, &e)
			}
			if err := each(&e); err != nil {
				return err
			}
		}
	}
}

// drain returns the next encoded sums; none at the end. They are valid until the next call.
func (c *counter) drain() ([]byte, error) {
	if _, err := c.first.Programs[sampleProgOnDrain].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return nil, err
	}
	var size uint32
	if err := c.first.Variables[sampleVarDrainSize].Get(&size); err != nil || size == 0 {
		return nil, err
	}
	c.buffer = slices.Grow(c.buffer[:0], int(size))[:size]
	_, err := c.encoded.ReadAt(c.buffer, 0)
	return c.buffer, err
}

// leave updates the counts of the generation that was read, and closes its chains if the next generation has others.
func (c *counter) leave(old, next int) error {
	f, err := c.filled()
	if err != nil {
		return err
	}
	c.sums[old].count += f[old].Sums - c.before[old].Sums
	c.chains[old].count += f[old].Chains - c.before[old].Chains
	c.before[old] = f[old]
	if c.chains[old] == c.chains[next] {
		return nil
	}
	if err := c.use(sampleMapChains, old, c.chains[next]); err != nil {
		return err
	}
	err = c.chains[old].Close()
	c.chains[old] = c.chains[next]
	return err
}

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
	errs := []error{c.waits.close(), c.unfollow()}
	if c.ring != nil {
		errs = append(errs, c.ring.Close())
	}
	if c.first != nil {
		c.first.Close()
	}
	if c.tables != nil {
		errs = append(errs, c.tables.Close())
	}
	for g := range c.sums {
		if c.sums[g] != nil {
			errs = append(errs, c.sums[g].Close())
		}
		if c.chains[g] != nil && (g == 0 || c.chains[g] != c.chains[0]) {
			errs = append(errs, c.chains[g].Close())
		}
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
