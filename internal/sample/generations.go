package sample

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/bperf/bperf/internal/kernel"
)

// generations are the maps of sums and chains, of which programs fill one generation while bperf reads the other one.
type generations struct {
	spec    *ebpf.CollectionSpec
	first   *ebpf.Collection // its maps are shared by all programs
	ring    *ringbuf.Reader
	encoded *ebpf.Memory // memory through which drain gets sums

	active uint32        // the generation that programs fill
	sums   [2]*table     // the second one is nil before the first swap, like that of chains
	chains [2]*table     // both may be the same table
	before [2]sampleFill // what programs had added to each generation before they began to fill it again

	last    drained
	buffer  []byte // copy of encoded
	byStack bool
	noStack uint64 // samples whose chains found no room in the ring buffer
	bytes   uint64 // bytes read from maps
}

// table is a hash table that programs fill.
type table struct {
	*ebpf.Map
	count uint64              // number of entries from earlier times
	known map[uint32][]uint64 // chains that were read, by ID
	parts map[uint32][]uint64 // parts of chains that were read, by ID
}

func (t *table) size() uint64 { return uint64(t.MaxEntries()) }

// stack has the addresses of a stack, the innermost frame first.
type stack struct{ kernel, user []uint64 }

// split returns the innermost frame, or 0, and its callers.
func (s stack) split() (ip uint64, callers stack) {
	switch {
	case len(s.kernel) > 0:
		return s.kernel[0], stack{s.kernel[1:], s.user}
	case len(s.user) > 0:
		return s.user[0], stack{user: s.user[1:]}
	}
	return 0, stack{}
}

// newTable creates a map of one generation.
func (g *generations) newTable(of string, entries uint32) (*table, error) {
	spec := g.spec.Maps[of].InnerMap.Copy()
	spec.Name, spec.MaxEntries = of, entries
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("make a BPF map for %d %s: %w", entries, of, err)
	}
	return &table{Map: m, known: make(map[uint32][]uint64), parts: make(map[uint32][]uint64)}, nil
}

// makeTables creates the maps of the first generation. The second one has none before programs are to fill it.
func (g *generations) makeTables(sums, chains uint32) (err error) {
	if g.sums[0], err = g.newTable(sampleMapSums, sums); err != nil {
		return err
	}
	g.chains[0], err = g.newTable(sampleMapChains, chains)
	return err
}

// useTables gives the maps of the first generation to the programs.
func (g *generations) useTables() error {
	return errors.Join(g.use(sampleMapSums, 0, g.sums[0]), g.use(sampleMapChains, 0, g.chains[0]))
}

// use replaces a map of a generation. When it returns, no program uses the old map.
func (g *generations) use(of string, generation int, t *table) error {
	if err := g.first.Maps[of].Put(uint32(generation), uint32(t.FD())); err != nil {
		return fmt.Errorf("put a BPF map into %s: %w", of, err)
	}
	return nil
}

// filled returns the numbers of entries that programs have added to each generation.
func (g *generations) filled() (f [2]sampleFill, err error) {
	if err := g.first.Variables[sampleVarFilled].Get(&f); err != nil {
		return f, fmt.Errorf("read how full BPF maps are: %w", err)
	}
	return f, nil
}

// fills returns the numbers of entries in the maps of the active generation.
func (g *generations) fills() (sums, chains uint64, err error) {
	f, err := g.filled()
	now, before := f[g.active], g.before[g.active]
	return g.sums[g.active].count + now.Sums - before.Sums, g.chains[g.active].count + now.Chains - before.Chains, err
}

// full reports whether more than half of one of these maps is used.
func (g *generations) full() (bool, error) {
	sums, chains, err := g.fills()
	return 2*sums > g.sums[g.active].size() || 2*chains > g.chains[g.active].size(), err
}

// crowded reports whether more than three quarters of one of these maps are used, which means that bperf read it late.
func (g *generations) crowded() (bool, error) {
	sums, chains, err := g.fills()
	return 4*sums > 3*g.sums[g.active].size() || 4*chains > 3*g.chains[g.active].size(), err
}

// entry is the sum of samples with the same subject and stack.
type entry struct {
	sampleKey
	sampleSum
	callers stack // of the innermost frame, or the whole stack if Ip is 0
}

// swap makes the other generation active, and then reads the old one. With grow it doubles the size of the maps.
func (g *generations) swap(grow bool, each func(*entry) error) error {
	old, next := int(g.active), int(1-g.active)
	if err := g.readChains(); err != nil { // before swapping: chains of the next generation are still of the last time that it was active
		return err
	}
	if err := g.renew(old, next, grow); err != nil {
		return err
	}
	if err := g.first.Variables[sampleVarGeneration].Set(uint32(next)); err != nil {
		return fmt.Errorf("swap BPF maps: %w", err)
	}
	g.active = uint32(next)
	if err := kernel.WaitForBPF(); err != nil {
		return err
	}
	if err := g.readChains(); err != nil {
		return err
	}
	if err := g.read(old, each); err != nil {
		return err
	}
	return g.leave(old, next)
}

// renew makes sure that the maps of the next generation have enough room.
func (g *generations) renew(old, next int, grow bool) error {
	_, chains, err := g.fills()
	if err != nil {
		return err
	}
	if err := g.renewSums(old, next, grow); err != nil {
		return err
	}
	switch size := g.chains[old].size(); {
	case 2*chains > size:
		if grow {
			size = min(2*size, mostEntries)
		}
		if g.chains[next], err = g.newTable(sampleMapChains, uint32(size)); err != nil {
			return err
		}
	case g.chains[next] == nil:
		g.chains[next] = g.chains[old]
	default:
		return nil
	}
	return g.use(sampleMapChains, next, g.chains[next])
}

func (g *generations) renewSums(old, next int, grow bool) error {
	before := g.sums[next]
	size := g.sums[old].size()
	if before != nil {
		size = before.size()
		if !grow && 4*before.count <= size {
			return nil
		}
	}
	if grow {
		size = min(2*size, mostEntries)
	}
	empty, err := g.newTable(sampleMapSums, uint32(size))
	if err != nil {
		return err
	}
	g.sums[next] = empty
	err = g.use(sampleMapSums, next, empty)
	if before != nil {
		err = errors.Join(err, before.Close())
	}
	return err
}

// finish reads the active generation when events no longer run the programs.
func (g *generations) finish(each func(*entry) error) error {
	if err := kernel.WaitForBPF(); err != nil {
		return err
	}
	if err := g.readChains(); err != nil {
		return err
	}
	return g.read(int(g.active), each)
}

// read reads the sums of a generation that no program fills, and sets them to 0.
func (g *generations) read(old int, each func(*entry) error) error {
	if err := g.first.Variables[sampleVarDrainGeneration].Set(uint32(old)); err != nil {
		return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
	}
	var e entry // reused
	for {
		encoded, err := g.drain()
		if err != nil {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapSums, err)
		}
		if len(encoded) == 0 {
			return nil
		}
		g.bytes += uint64(len(encoded))
		for d := (decoder{data: encoded}); len(d.data) > 0; {
			if e = g.last.sum(&d); d.err != nil {
				return fmt.Errorf("the BPF map %s: %w", sampleMapSums, d.err)
			}
			if g.byStack {
				e.callers = g.callersOf(old, &e)
			}
			if err := each(&e); err != nil {
				return err
			}
		}
	}
}

// drain returns the next encoded sums; none at the end. They are valid until the next call.
func (g *generations) drain() ([]byte, error) {
	if _, err := g.first.Programs[sampleProgOnDrain].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return nil, err
	}
	var size uint32
	if err := g.first.Variables[sampleVarDrainSize].Get(&size); err != nil || size == 0 {
		return nil, err
	}
	g.buffer = slices.Grow(g.buffer[:0], int(size))[:size]
	_, err := g.encoded.ReadAt(g.buffer, 0)
	return g.buffer, err
}

// leave updates the counts of the generation that was read, and closes its chains if the next generation has others.
func (g *generations) leave(old, next int) error {
	f, err := g.filled()
	if err != nil {
		return err
	}
	g.sums[old].count += f[old].Sums - g.before[old].Sums
	g.chains[old].count += f[old].Chains - g.before[old].Chains
	g.before[old] = f[old]
	if g.chains[old] == g.chains[next] {
		return nil
	}
	if err := g.use(sampleMapChains, old, g.chains[next]); err != nil {
		return err
	}
	err = g.chains[old].Close()
	g.chains[old] = g.chains[next]
	return err
}

// close frees the maps and the programs of first.
func (g *generations) close() error {
	var errs []error
	if g.ring != nil {
		errs = append(errs, g.ring.Close())
	}
	if g.first != nil {
		g.first.Close()
	}
	for n := range g.sums {
		if g.sums[n] != nil {
			errs = append(errs, g.sums[n].Close())
		}
		if g.chains[n] != nil && (n == 0 || g.chains[n] != g.chains[0]) {
			errs = append(errs, g.chains[n].Close())
		}
	}
	return errors.Join(errs...)
}
