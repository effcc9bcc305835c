package sample

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/userstack"
)

// counter adds samples up in the kernel (bpf/sample.bpf.c). It is not safe for concurrent use, other than counts.
type counter struct {
	spec    *ebpf.CollectionSpec
	first   *ebpf.Collection   // whose maps all use
	objects []*ebpf.Collection // for each event
	waits   *waits             // nil where no off-CPU time is measured, or not yet
	events  int                // that have counts

	tables *userstack.Tables // nil where user stacks are left to frame pointers

	active uint32 // the generation that is filled
	sums   [2]*table
	stacks [2]*table     // may be one and the same
	before [2]sampleFill // what the program had added to each generation before it was filled this time
	types  *btf.Cache    // decoding the kernel's takes longer than all else
	known  map[uint64]stack
	keys   []sampleKey
	values []sampleSum
	bytes  uint64 // that were read from maps
}

// table is a hash table that is filled by the program.
type table struct {
	*ebpf.Map
	count uint64 // entries that are left there from earlier generations
}

func (t *table) size() uint64 { return uint64(t.MaxEntries()) }

// stack is a stack from the innermost frame on.
type stack struct{ kernel, user []uint64 }

// Sizes of the maps at first, in entries, and at most.
const (
	defaultSums   = 16 << 10
	defaultStacks = 8 << 10
	mostEntries   = 1 << 20
)

// settings are what the program is loaded with.
type settings struct {
	Keys
	kernel, user bool // parts of stacks
	noIdle       bool
	waits        bool // how long threads are blocked, too
	eager        bool // there are unwind tables for all processes that are told of
	events       int
	entries      uint32 // of each map, at first; 0 for what is usual

	ips      []Range            // in one of which the instruction pointer has to be; nil for anywhere
	programs []Range            // in one of which it, or a caller, has to be; nil for anywhere
	filters  []asm.Instructions // of each event; nil for none
}

// newCounter loads the program for each event.
func newCounter(o settings) (*counter, error) {
	c := &counter{events: o.events, types: btf.NewCache(), known: make(map[uint64]stack), keys: make([]sampleKey, batch), values: make([]sampleSum, batch)}
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
	unwinds := o.Stack && o.user && hasLoops()
	if unwinds {
		userstack.DefaultLimits.Resize(c.spec)
	}
	if o.events >= mostEvents { // off-CPU time is one more
		return fmt.Errorf("%d events: there is room for %d", o.events, mostEvents-1)
	}
	if err := setVariables(c.spec, map[string]any{
		sampleVarByStack: o.Stack, sampleVarByIp: o.IP, sampleVarByPid: o.PID, sampleVarByTid: o.TID, sampleVarByComm: o.Comm, sampleVarByCpu: o.CPU,
		sampleVarByCgroup: o.Cgroup, sampleVarByPriority: o.Priority, sampleVarByState: o.State,
		sampleVarKernelStacks: o.kernel, sampleVarUserStacks: o.user, sampleVarNoIdle: o.noIdle, sampleVarIsArm64: runtime.GOARCH == "arm64",
		sampleVarUnwinds: unwinds,
	}); err != nil {
		return err
	}
	if err := setRanges(c.spec, o.ips, o.programs); err != nil {
		return err
	}
	sums, stacks := uint32(defaultSums), uint32(defaultStacks)
	if o.entries > 0 {
		sums, stacks = o.entries, o.entries
	}
	if !o.Stack {
		stacks = 1
	}
	for g := range c.sums {
		if c.sums[g], err = c.newTable(sampleMapSums, sums); err != nil {
			return err
		}
	}
	if c.stacks[0], err = c.newTable(sampleMapStacks, stacks); err != nil {
		return err
	}
	c.stacks[1] = c.stacks[0]
	if err := c.loadFirst(); err != nil {
		return err
	}
	if o.waits {
		c.events++
	}
	for event := range o.events {
		if err := c.loadFor(event, o.filters[event]); err != nil {
			return err
		}
	}
	for g := range c.sums {
		if err := errors.Join(c.use(sampleMapSums, g, c.sums[g]), c.use(sampleMapStacks, g, c.stacks[g])); err != nil {
			return err
		}
	}
	if unwinds {
		c.tables, err = userstack.New(c.first.Maps, userstack.DefaultLimits, o.eager)
	}
	return err
}

// hasLoops reports whether programs may walk stacks by tables: with bpf_loop, Linux 5.17.
func hasLoops() bool { return features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop) == nil }

// mostEvents is MAX_EVENTS of sample.bpf.c.
const mostEvents = 64

// loadFirst makes the maps that all programs share.
func (c *counter) loadFirst() (err error) {
	spec := c.spec.Copy()
	withoutWaits(spec)
	delete(spec.Programs, sampleProgOnSample)
	c.first, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: c.types})
	return err
}

// shared are the maps that all programs share: all but that of constants.
func (c *counter) shared() map[string]*ebpf.Map {
	shared := maps.Clone(c.first.Maps)
	delete(shared, ".rodata")
	return shared
}

// loadFor loads the program of an event, of whose constants the number of the event is one.
func (c *counter) loadFor(event int, filter asm.Instructions) error {
	spec := c.spec.Copy()
	withoutWaits(spec)
	delete(spec.Programs, sampleProgSetup)
	if filter != nil {
		program := spec.Programs[sampleProgOnSample]
		var err error
		if program.Instructions, err = withFunction(program.Instructions, "filter", filter); err != nil {
			return err
		}
	}
	if err := setVariables(spec, map[string]any{sampleVarEvent: uint32(event)}); err != nil {
		return err
	}
	objects, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: c.shared(), Cache: c.types})
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

// newTable makes a map of one generation.
func (c *counter) newTable(of string, entries uint32) (*table, error) {
	spec := c.spec.Maps[of].InnerMap.Copy()
	spec.Name, spec.MaxEntries = of, entries
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make a BPF map for %d %s: %w", entries, of, err)
	}
	return &table{Map: m}, nil
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
func (c *counter) fills() (sums, stacks uint64, err error) {
	f, err := c.filled()
	now, before := f[c.active], c.before[c.active]
	return now.Sums - before.Sums, c.stacks[c.active].count + now.Stacks - before.Stacks, err
}

// full reports whether half of one of the maps is used.
func (c *counter) full() (bool, error) {
	sums, stacks, err := c.fills()
	return 2*sums > c.sums[c.active].size() || 2*stacks > c.stacks[c.active].size(), err
}

// entry is a sum of samples that are alike.
type entry struct {
	sampleKey
	sampleSum
	stack stack
}

// swap lets the program fill the other generation, and reads the one that it has filled. With grow the maps get twice the size.
func (c *counter) swap(grow bool, each func(*entry) error) error {
	old, next := int(c.active), int(1-c.active)
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
	if err := c.read(old, each); err != nil {
		return err
	}
	return c.leave(old, next)
}

// renew sees to it that there is room in the generation that comes next.
func (c *counter) renew(old, next int, grow bool) (err error) {
	_, stacks, err := c.fills()
	if err != nil {
		return err
	}
	if grow && c.sums[next].size() < mostEntries {
		bigger, err := c.newTable(sampleMapSums, uint32(min(2*c.sums[next].size(), mostEntries)))
		if err != nil {
			return err
		}
		if err := errors.Join(c.use(sampleMapSums, next, bigger), c.sums[next].Close()); err != nil {
			return err
		}
		c.sums[next] = bigger
	}
	if size := c.stacks[old].size(); 2*stacks > size {
		if grow {
			size = min(2*size, mostEntries)
		}
		if c.stacks[next], err = c.newTable(sampleMapStacks, uint32(size)); err != nil {
			return err
		}
		return c.use(sampleMapStacks, next, c.stacks[next])
	}
	return nil
}

// batch is how many sums are read at a time.
const batch = 4096

// read reads a generation that is not used any more, and leaves no sums in it.
func (c *counter) read(g int, each func(*entry) error) error {
	var cursor ebpf.MapBatchCursor
	for {
		n, end := c.sums[g].BatchLookupAndDelete(&cursor, c.keys, c.values, nil)
		if end != nil && !errors.Is(end, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, end)
		}
		c.bytes += uint64(n) * uint64(binary.Size(sampleKey{})+binary.Size(sampleSum{}))
		for i := range n {
			stack, err := c.stack(g, c.keys[i].Stack)
			if err != nil {
				return err
			}
			if err := each(&entry{sampleKey: c.keys[i], sampleSum: c.values[i], stack: stack}); err != nil {
				return err
			}
		}
		if end != nil { // that was all
			return nil
		}
	}
}

// stack is the one with a hash.
func (c *counter) stack(g int, hash uint64) (stack, error) {
	const none = 0
	if hash == none {
		return stack{}, nil
	}
	if s, known := c.known[hash]; known {
		return s, nil
	}
	var v sampleStack
	if err := c.stacks[g].Lookup(hash, &v); err != nil {
		return stack{}, fmt.Errorf("read the BPF map %s: %w", sampleMapStacks, err)
	}
	c.bytes += uint64(binary.Size(hash) + binary.Size(v))
	s := stackOf(&v)
	c.known[hash] = s
	return s, nil
}

func stackOf(v *sampleStack) stack {
	return stack{frames(v.Kernel[:min(int(v.NrKernel), len(v.Kernel))]), frames(v.User[:min(int(v.NrUser), len(v.User))])}
}

// frames are the addresses of a stack without the marks that the kernel puts into the callchains of some events.
func frames(all []uint64) []uint64 { return slices.DeleteFunc(slices.Clone(all), perfdata.IsContext) }

// leave lets go of what the generation that was read had for itself.
func (c *counter) leave(old, next int) error {
	f, err := c.filled()
	if err != nil {
		return err
	}
	c.stacks[old].count += f[old].Stacks - c.before[old].Stacks
	c.before[old] = f[old]
	if c.stacks[old] == c.stacks[next] {
		return nil
	}
	clear(c.known)
	if err := c.use(sampleMapStacks, old, c.stacks[next]); err != nil {
		return err
	}
	err = c.stacks[old].Close()
	c.stacks[old] = c.stacks[next]
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
	errs := []error{c.waits.close()}
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
		if c.stacks[g] != nil && (g == 0 || c.stacks[g] != c.stacks[0]) {
			errs = append(errs, c.stacks[g].Close())
		}
	}
	return errors.Join(errs...)
}

// explain says what is needed where something may not be done.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
