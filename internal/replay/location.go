package replay

import (
	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/unwind"
)

// Location is a place in code or data. It is the same one for all samples that are there, as far as one resolver has seen them.
type Location struct {
	Index  int     // among those of its resolver, from 0 on
	DSO    *DSO    // nil if nothing is known to be mapped there
	Addr   uint64  // as Mapping.Addr makes it; the address in memory without DSO
	Symbol *Symbol // nil if there is none
	Kind   profile.Kind

	// Inlined are the functions that the compiler put into Symbol at this place, the innermost first, without Symbol itself. It is empty
	// where Options.NoInline is set.
	Inlined []symbol.Frame
	File    string // of the source; with Options.Lines
	Line    int    // in File, of Symbol itself; 0 if it is not known
}

// Offset is how far the place is behind the beginning of its symbol.
func (l *Location) Offset() uint64 { return l.Addr - l.Symbol.Start }

// Frame is an entry of a callchain.
type Frame struct {
	IP uint64 // the address in memory
	*Location
}

// Resolver finds out what is at the addresses of samples, and remembers it. It is for one goroutine.
type Resolver struct {
	replay   *Replay
	known    table
	frames   []Frame
	unwinder *unwind.Unwinder // nil until it is needed
	chain    []uint64
}

// Resolve returns what is at an address, in the address space that a CPU mode says.
func (r *Resolver) Resolve(item *Item, mode perfdata.Misc, ip uint64) *Location {
	maps, kind := item.user, profile.User
	switch mode {
	case perfdata.MiscUser:
	case perfdata.MiscKernel:
		maps, kind = item.kernel, profile.Kernel
	case perfdata.MiscHypervisor:
		maps, kind = nil, profile.Hypervisor
	case perfdata.MiscGuestKernel:
		maps, kind = nil, profile.GuestKernel
	case perfdata.MiscGuestUser:
		maps, kind = nil, profile.GuestUser
	default:
		maps, kind = nil, profile.UnknownCode
	}
	var dso *DSO
	addr, index := ip, -1-int(kind)
	if maps != nil {
		if m := maps.Find(ip); m != nil {
			dso, addr, index = m.DSO, m.Addr(ip), m.DSO.Index
			kind = dso.Kind
		} else if d := r.replay.machine.kernelDSO; mode == perfdata.MiscKernel && d != nil && r.replay.isKernel(ip) {
			dso, index = d, d.Index
		}
	}
	return r.known.get(index, addr, func(l *Location) {
		l.DSO, l.Addr, l.Kind = dso, addr, kind
		if dso != nil && dso.names != nil {
			dso.names.locate(l)
		}
	})
}

// IP returns what is at the instruction pointer of a sample.
func (r *Resolver) IP(item *Item) *Location {
	return r.Resolve(item, item.Misc.CPUMode(), item.Sample.IP)
}

// Data returns what is at the data address of a sample. The mode of the CPU may be another than that of the memory: the kernel reads the
// memory of processes.
func (r *Resolver) Data(item *Item) *Location {
	mode, addr := item.Misc.CPUMode(), item.Sample.Addr
	if l := r.Resolve(item, mode, addr); l.DSO != nil {
		return l
	}
	other := perfdata.MiscKernel
	if mode == perfdata.MiscKernel {
		other = perfdata.MiscUser
	}
	if l := r.Resolve(item, other, addr); l.DSO != nil {
		return l
	}
	return r.Resolve(item, mode, addr)
}

// Callchain returns the callchain of a sample, the innermost frame first: what the kernel recorded, and what follows of the stack of the
// user that it recorded. It is valid until the next call. It is cut behind Options.MaxStack frames. False says that the sample has none.
func (r *Resolver) Callchain(item *Item) ([]Frame, bool) {
	s := item.Sample
	if !s.Fields.Has(perfdata.SampleCallchain) {
		return nil, false
	}
	r.frames = r.frames[:0]
	mode := perfdata.MiscUser
	for _, ip := range s.Callchain {
		if perfdata.IsContext(ip) {
			switch ip {
			case perfdata.ContextHV:
				mode = perfdata.MiscHypervisor
			case perfdata.ContextKernel:
				mode = perfdata.MiscKernel
			case perfdata.ContextUser:
				mode = perfdata.MiscUser
			case perfdata.ContextUserDeferred:
				return r.frames, true // what follows is no address
			case perfdata.ContextGuestKernel:
				mode = perfdata.MiscGuestKernel
			case perfdata.ContextGuestUser:
				mode = perfdata.MiscGuestUser
			default:
				r.replay.badContexts.Add(1)
				return r.frames[:0], true
			}
			continue
		}
		if len(r.frames) >= r.replay.options.MaxStack {
			return r.frames, true
		}
		r.frames = append(r.frames, Frame{ip, r.Resolve(item, mode, ip)})
	}
	if s.Fields.Has(perfdata.SampleRegsUser|perfdata.SampleStackUser) && len(s.UserStack) > 0 {
		r.unwind(item)
	}
	return r.frames, true
}

// table finds locations by DSO and address.
type table struct {
	all   []*Location
	keys  []tableKey // of all
	slots []uint32   // a hash table with linear probing, of a power of two: 1 + the position in all; 0 is free
	block []Location // for the next ones
}

type tableKey struct {
	addr  uint64
	index int
}

func (k tableKey) hash() uint64 {
	x := k.addr ^ uint64(k.index)<<40
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

func (t *table) get(index int, addr uint64, fill func(*Location)) *Location {
	if 2*len(t.all) >= len(t.slots) {
		t.grow()
	}
	key := tableKey{addr, index}
	mask := uint64(len(t.slots) - 1)
	i := key.hash() & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		if at := t.slots[i] - 1; t.keys[at] == key {
			return t.all[at]
		}
	}
	if len(t.block) == 0 {
		t.block = make([]Location, 256)
	}
	l := &t.block[0]
	t.block = t.block[1:]
	l.Index = len(t.all)
	t.all, t.keys = append(t.all, l), append(t.keys, key)
	t.slots[i] = uint32(len(t.all))
	fill(l)
	return l
}

func (t *table) grow() {
	t.slots = make([]uint32, max(1024, 2*len(t.slots)))
	mask := uint64(len(t.slots) - 1)
	for at, key := range t.keys {
		i := key.hash() & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(at + 1)
	}
}
