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

// counter adds samples up in the kernel (bpf/sample.bpf.c). It is not safe for concurrent use, other than counts.
type counter struct {
	spec    *ebpf.CollectionSpec
	first   *ebpf.Collection   // whose maps all use
	objects []*ebpf.Collection // for each event
	encoded *ebpf.Memory       // sums that are read
	waits   *waits             // nil where no off-CPU time is measured, or not yet
	events  int                // that have counts
	command bool               // is what is followed, from when it is executed
	links   []link.Link        // of the programs that follow processes

	tables *userstack.Tables // nil where user stacks are left to frame pointers

	active uint32 // the generation that is filled
	sums   [2]*table
	chains [2]*table     // may be one and the same
	before [2]sampleFill // what the program had added to each generation before it was filled this time
	types  *btf.Spec     // of the kernel, as far as programs know them; nil where all are looked for
	all    *btf.Cache    // of the kernel, for programs that are attached by them

	asking sync.Mutex      // for symbols
	named  []replay.Symbol // of the kernel itself, which were asked for, by address

	ring         *ringbuf.Reader
	last         drained
	buffer       []byte   // of encoded
	kernel, user []uint64 // of the stack that is made
	byStack      bool
	noStack      uint64 // samples whose callers the ring buffer had no room for
	bytes        uint64 // that were read from maps
}

// table is a hash table that is filled by the program.
type table struct {
	*ebpf.Map
	count uint64              // entries that are left there from earlier generations
	known map[uint32][]uint64 // chains by ID, as they were read
}

func (t *table) size() uint64 { return uint64(t.MaxEntries()) }

// stack is a stack from the innermost frame on.
type stack struct{ kernel, user []uint64 }

// Sizes of the maps at first, in entries, and at most.
const (
	defaultSums   = 32 << 10
	defaultChains = 64 << 10
	mostEntries   = 1 << 20
)

// settings are what the program is loaded with.
type settings struct {
	Keys
	kernel, user bool // parts of stacks
	noIdle       bool
	waits        bool // how long threads are blocked, too
	command      bool // of a command that is started for it
	follows      bool // events are those of CPUs, and the samples of some processes are kept
	eager        bool // there are unwind tables for all processes that are told of
	allowance    *allowance.Allowance
	events       int
	rate         uint64 // samples in a second at most; 0 if it is not known
	entries      uint32 // of each map, at first; 0 for what is usual

	ips      []Range            // in one of which the instruction pointer has to be; nil for anywhere
	programs []Range            // in one of which it, or a caller, has to be; nil for anywhere
	filters  []asm.Instructions // of each event; nil for none
	access   asm.Instructions   // reads what the kernel's own samples have; nil if no key needs it
	allTypes bool               // filters know types of the kernel that the program does not
}

// newCounter loads the program for each event.
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
		c.types = nil // they may be elsewhere, and the library tells where it has looked
	}
	unwinds := o.Stack && o.user && hasLoops()
	if unwinds {
		userstack.DefaultLimits.Resize(c.spec)
	}
	if o.events >= mostEvents { // off-CPU time is one more
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

// hasLoops reports whether programs may walk stacks by tables: with bpf_loop, Linux 5.17.
func hasLoops() bool { return features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop) == nil }

// mostEvents is MAX_EVENTS of sample.bpf.c.
const mostEvents = 64

// loadFirst makes the maps that all programs share.
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

// withoutReader lets a collection do without the programs that are run by this process alone.
func withoutReader(spec *ebpf.CollectionSpec) {
	withoutFollowing(spec)
	for _, name := range []string{sampleProgSetup, sampleProgOnDrain, sampleProgOnSymbol} {
		delete(spec.Programs, name)
	}
}

// shared are the maps that all programs share: all but that of constants.
func (c *counter) shared() map[string]*ebpf.Map {
	shared := maps.Clone(c.first.Maps)
	delete(shared, ".rodata")
	return shared
}

// loadFor loads the program of an event, of whose constants the number of the event is one. Code that is not nil replaces functions of the program.
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

// sumsFor is how many sums there is room for at first: those of some seconds, so that none is lost where this process has to wait for a CPU.
func sumsFor(rate uint64) uint32 {
	const seconds, most = 8, 128 << 10
	sums := uint32(defaultSums)
	for sums < most && uint64(sums) < seconds*rate {
		sums *= 2
	}
	return sums
}

// newTable makes a map of one generation.
func (c *counter) newTable(of string, entries uint32) (*table, error) {
	spec := c.spec.Maps[of].InnerMap.Copy()
	spec.Name, spec.MaxEntries = of, entries
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make a BPF map for %d %s: %w", entries, of, err)
	}
	return &table{Map: m, known: make(map[uint32][]uint64)}, nil
}

// use puts a map into its place in a generation. When it returns, no program uses what was there before.
func (c *counter) use(of string, generation int, t *table) error {
	if err := c.first.Maps[of].Put(uint32(generation), uint32(t.FD())); err != nil {
		return fmt.Errorf("put a BPF map into %s: %w", of, err)
	}
	return nil
}

// program is the descriptor of the program of an event.
func (c *counter) program(event int) int { return c.objects[event].Programs[sampleProgOnSample].FD() }

// filled are the numbers of entries that the program has added to each generation.
func (c *counter) filled() (f [2]sampleFill, err error) {
	if err := c.first.Variables[sampleVarFilled].Get(&f); err != nil {
		return f, fmt.Errorf("read how full BPF maps are: %w", err)
	}
	return f, nil
}

// fills are how many entries the maps that are filled now have.
func (c *counter) fills() (sums, chains uint64, err error) {
	f, err := c.filled()
	now, before := f[c.active], c.before[c.active]
	return c.sums[c.active].count + now.Sums - before.Sums, c.chains[c.active].count + now.Chains - before.Chains, err
}

// full reports whether half of one of the maps is used.
func (c *counter) full() (bool, error) {
	sums, chains, err := c.fills()
	return 2*sums > c.sums[c.active].size() || 2*chains > c.chains[c.active].size(), err
}

// crowded reports whether three quarters of one of the maps are used: it was read late.
func (c *counter) crowded() (bool, error) {
	sums, chains, err := c.fills()
	return 4*sums > 3*c.sums[c.active].size() || 4*chains > 3*c.chains[c.active].size(), err
}

// entry is a sum of samples that are alike.
type entry struct {
	sampleKey
	sampleSum
	stack stack // up to the next one
}

// swap lets the program fill the other generation, and reads the one that it has filled. With grow the maps get twice the size.
func (c *counter) swap(grow bool, each func(*entry) error) error {
	old, next := int(c.active), int(1-c.active)
	if err := c.readChains(); err != nil { // those of the next generation are of its last time
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

// renew sees to it that there is room in the generation that comes next.
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

// read reads a generation that is not used any more, and leaves its sums at 0.
func (c *counter) read(g int, each func(*entry) error) error {
	if err := c.first.Variables[sampleVarDrainGeneration].Set(uint32(g)); err != nil {
		return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
	}
	var e entry // used again and again
	for {
		told, err := c.drain()
		if err != nil {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
		}
		if len(told) == 0 {
			return nil
		}
		c.bytes += uint64(len(told))
		for d := (decoder{data: told}); len(d.data) > 0; {
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

// drain returns some sums that were not read yet, as long as there are any; they are valid up to the next time.
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

// leave lets go of what the generation that was read had for itself.
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

// counts are those of all events, up to now, and those of blocked threads behind them.
func (c *counter) counts() ([]sampleCounts, error) {
	var all [mostEvents]sampleCounts
	if err := c.first.Variables[sampleVarCounted].Get(&all); err != nil {
		return nil, fmt.Errorf("read how many samples were counted: %w", err)
	}
	return all[:c.events], nil
}

// Close frees everything. It may be called for nil.
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

// explain says what is needed where something may not be done.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. %s", what, err, kernel.Remedy("Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF"))
	}
	return fmt.Errorf("%s: %w", what, err)
}
