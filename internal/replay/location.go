package replay

import (
	"strings"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// Location is a place in code or data. It is the same one for all samples that are there.
type Location struct {
	DSO    *DSO    // nil if nothing is known to be mapped there
	Addr   uint64  // as Mapping.Addr makes it; the address in memory without DSO
	Symbol *Symbol // nil if there is none
	Source *Source // never nil

	Index uint32 // among those of the replay, or of its interval, from 0 on
	Kind  profile.Kind
	last  bool  // no code of Symbol follows, or there is no Symbol
	entry bool  // the kernel comes here when code is interrupted: the address outside of it in a callchain is where that stands
	thunk bool  // the kernel jumps from here to a function, whose address can be outside of it in a callchain
	space int32 // of Addr: the index of the DSO, or a negative number for each kind of code without one
}

// Source is what is known of a place besides its symbol.
type Source struct {
	// Inlined are the functions that the compiler put into Symbol at this place, the innermost first, without Symbol itself. It is empty
	// where Options.NoInline is set.
	Inlined []Inlined
	File    string // with Options.Lines
	Line    int    // in File, of Symbol itself; 0 if it is not known
}

// Inlined is a function that the compiler put into another one.
type Inlined struct {
	Function  string
	File      string // with Options.Lines
	Line      uint32 // in File, with Options.Lines: of the place or of the call to the next one; 0 if it is not known
	StartLine uint32 // where the function begins in its file; 0 if it is not known
}

var noSource Source

// Frame is an entry of a callchain.
type Frame struct {
	IP        uint64 // the address in memory
	*Location        // what is at IP, or where Return is set, one byte before it
	Return    bool   // IP is where a call returns to: the call, which ends one byte before it, can be in another function or line
}

// Address returns the address of the frame in its DSO: that of IP.
func (f *Frame) Address() uint64 {
	if f.Return {
		return f.Addr + 1
	}
	return f.Addr
}

// Offset returns how far Address is behind the beginning of the frame's symbol.
func (f *Frame) Offset() uint64 { return f.Address() - f.Symbol.Start }

// Number returns the same number for all frames with the same Location and Return. The numbers are small: those of a replay begin at 0.
func (f *Frame) Number() uint32 {
	if f.Return {
		return 2*f.Index + 1
	}
	return 2 * f.Index
}

// Resolver finds out what is at the addresses of samples, and remembers it. It is for one goroutine.
type Resolver struct {
	replay   *Replay
	recent   [1 << recentBits]resolved // the last one with each hash
	known    [1 << knownBits]*Location // the last one with each hash
	frames   []Frame
	cut      bool             // the callchain of the last Callchain ends at an entry that is no address
	unwinder *unwind.Unwinder // nil until it is needed
	chain    []uint64
}

// resolved is the location of an address in memory, as long as that holds the same.
type resolved struct {
	maps *addressSpace
	ip   uint64
	*Location
}

// recentBits is the size of what each resolver remembers of addresses in memory, as a power of two.
const recentBits = 13

// forget drops what it remembers.
func (r *Resolver) forget() {
	clear(r.recent[:])
	clear(r.known[:])
}

// Resolve returns what is at an address, in the address space that a CPU mode says.
func (r *Resolver) Resolve(item *Item, mode perfdata.Misc, ip uint64) *Location {
	var maps *addressSpace
	switch mode {
	case perfdata.MiscUser:
		maps = item.user
	case perfdata.MiscKernel:
		maps = item.kernel
	}
	if maps == nil {
		return r.resolve(item, mode, ip)
	}
	slot := &r.recent[ip*0x9e3779b97f4a7c15>>(64-recentBits)]
	if slot.ip != ip || slot.maps != maps {
		*slot = resolved{maps, ip, r.resolve(item, mode, ip)}
	}
	return slot.Location
}

func (r *Resolver) resolve(item *Item, mode perfdata.Misc, ip uint64) *Location {
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
	addr, space := ip, -1-int32(kind)
	if maps != nil {
		if m := maps.find(ip); m != nil {
			dso, addr, space = m.DSO, m.addr(ip), int32(m.DSO.Index)
			kind = dso.Kind
		} else if d := r.replay.machine.kernelDSO; mode == perfdata.MiscKernel && d != nil && r.replay.isKernel(ip) {
			dso, space = d, int32(d.Index)
		}
	}
	hash := hashOf(space, addr)
	slot := &r.known[hash>>(64-knownBits)]
	if l := *slot; l != nil && l.Addr == addr && l.space == space {
		return l
	}
	l := r.replay.locations.get(hash, space, addr, func(l *Location) {
		l.DSO, l.Kind = dso, kind
		if dso != nil && dso.names != nil {
			dso.names.locate(l)
		}
		l.last = l.Symbol == nil || l.Addr+1 >= l.Symbol.End
		if kind == profile.Kernel && l.Symbol != nil {
			l.entry, l.thunk = isEntry(l.Symbol.Name), strings.HasPrefix(l.Symbol.Name, "__x86_indirect_") // arch/x86/lib/retpoline.S
		}
	})
	*slot = l
	return l
}

// isEntry reports whether the kernel's function with a name is where interrupts and exceptions enter it: asm_sysvec_apic_timer_interrupt, say, on x86-64 since
// Linux 5.8 (arch/x86/include/asm/idtentry.h), el1h_64_irq on arm64 since 5.14 (arch/arm64/kernel/entry.S).
func isEntry(name string) bool {
	return strings.HasPrefix(name, "asm_") || strings.HasPrefix(name, "el1h_64_") && !strings.HasSuffix(name, "_handler")
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

// frame returns what is at an entry of a callchain. Where a call returns to it, that is what is at the call. inner is the entry before it; nil where there is
// none, or ip is no return address.
func (r *Resolver) frame(item *Item, mode perfdata.Misc, ip uint64, inner *Location) Frame {
	if inner != nil && !inner.entry && !(inner.thunk && r.functionAt(item, mode, ip) != nil) {
		call := r.Resolve(item, mode, ip-1)
		if call.DSO != nil && !(call.last && mode == perfdata.MiscUser && r.isRestorer(item, ip)) {
			return Frame{ip, call, true}
		}
	}
	return Frame{ip, r.Resolve(item, mode, ip), false}
}

// functionAt returns what is at ip, if a function begins there.
func (r *Resolver) functionAt(item *Item, mode perfdata.Misc, ip uint64) *Location {
	at := r.Resolve(item, mode, ip)
	if at.Symbol == nil || at.Symbol.Start != at.Addr {
		return nil
	}
	return at
}

// isRestorer reports whether a signal handler of the user returns to ip: no call stands before that, but another function, where there is code at all.
func (r *Resolver) isRestorer(item *Item, ip uint64) bool {
	at := r.functionAt(item, perfdata.MiscUser, ip)
	return at != nil && r.replay.arch().IsRestorer(at.Code)
}

// Callchain returns the callchain of a sample, the innermost frame first: what the kernel recorded, and what follows of the stack of the
// user that it recorded. It is valid until the next call. It is cut behind Options.MaxStack frames, and at an entry that is no address. False says that
// the sample has none.
func (r *Resolver) Callchain(item *Item) ([]Frame, bool) {
	s := item.Sample
	if !s.Fields.Has(perfdata.SampleCallchain) {
		return nil, false
	}
	r.frames, r.cut = r.frames[:0], false
	mode := perfdata.MiscUser
	var inner *Location
	for _, ip := range s.Callchain {
		if perfdata.IsContext(ip) {
			// Code without frame pointers can have anything where the kernel looks for return addresses. No mark follows the user's part.
			next, known := modeOf(ip)
			if mode == perfdata.MiscUser && inner != nil || !known && ip != perfdata.ContextUserDeferred {
				r.cut = true
				r.replay.cutChains.Add(1)
				return r.frames, true
			}
			if ip == perfdata.ContextUserDeferred {
				return r.frames, true // what follows is no address
			}
			mode, inner = next, nil
			continue
		}
		if len(r.frames) >= r.replay.options.MaxStack {
			return r.frames, true
		}
		frame := r.frame(item, mode, ip, inner)
		r.frames = append(r.frames, frame)
		inner = frame.Location
	}
	if s.Fields.Has(perfdata.SampleRegsUser|perfdata.SampleStackUser) && len(s.UserStack) > 0 {
		r.unwind(item)
	}
	return r.frames, true
}

// modeOf is the CPU mode of the addresses that follow a mark in a callchain.
func modeOf(mark uint64) (mode perfdata.Misc, known bool) {
	switch mark {
	case perfdata.ContextHV:
		return perfdata.MiscHypervisor, true
	case perfdata.ContextKernel:
		return perfdata.MiscKernel, true
	case perfdata.ContextUser:
		return perfdata.MiscUser, true
	case perfdata.ContextGuestKernel:
		return perfdata.MiscGuestKernel, true
	case perfdata.ContextGuestUser:
		return perfdata.MiscGuestUser, true
	}
	return 0, false
}
