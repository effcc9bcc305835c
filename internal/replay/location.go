package replay

import (
	"strings"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// Location is an address in code or data, with what is known about it. All samples at the same address share one Location.
type Location struct {
	DSO    *DSO    // nil if no mapping is known
	Addr   uint64  // offset in the file of DSO, or the address in memory
	Symbol *Symbol // nil if unknown
	Source *Source // never nil

	Index uint32 // number among the locations of the replay, or of its interval, from 0
	Kind  profile.Kind
	last  bool  // no code of Symbol follows, or Symbol is nil
	entry bool  // the kernel enters here on an interrupt: the next address in a callchain is the interrupted instruction
	thunk bool  // the kernel jumps from here to a function: the next address in a callchain can be the start of that function
	space int32 // address space of Addr: the index of the DSO, or a negative number for each kind of code without one
}

// Source is the source line of a location and the functions that are inlined there.
type Source struct {
	// Inlined are the functions that the compiler inlined into Symbol here, the innermost first, without Symbol itself. It is empty with
	// Options.NoInline.
	Inlined []Inlined
	File    string // with Options.Lines
	Line    int    // line of Symbol itself in File; 0 if unknown
}

// Inlined is a function that the compiler inlined into another one.
type Inlined struct {
	Function  string
	File      string // with Options.Lines
	Line      uint32 // line in File, with Options.Lines: of the location, or of the call to the next inner function; 0 if unknown
	StartLine uint32 // line where the function begins in File; 0 if unknown
}

var noSource Source

// Frame is an entry of a callchain.
type Frame struct {
	IP        uint64 // address in memory
	*Location        // location of IP or, if Return is set, of the byte before it
	Return    bool   // IP is a return address: the call ends one byte before it and can be in another function or line
}

// Address returns the address of IP in the frame's DSO.
func (f *Frame) Address() uint64 {
	if f.Return {
		return f.Addr + 1
	}
	return f.Addr
}

// Offset returns the distance of Address from the start of the frame's symbol.
func (f *Frame) Offset() uint64 { return f.Address() - f.Symbol.Start }

// Number returns a small number that is the same for all frames with the same Location and Return. The numbers of a replay begin at 0.
func (f *Frame) Number() uint32 {
	if f.Return {
		return 2*f.Index + 1
	}
	return 2 * f.Index
}

// Resolver finds the locations of addresses and caches them. It is for one goroutine.
type Resolver struct {
	replay   *Replay
	recent   [1 << recentBits]resolved // the last one with each hash
	known    [1 << knownBits]*Location // the last one with each hash
	frames   []Frame
	unwinder *unwind.Unwinder // nil until it is needed
	chain    []uint64
}

// resolved is the location of an address in memory. It is valid while the address space is the same.
type resolved struct {
	maps *addressSpace
	ip   uint64
	*Location
}

// recentBits is the size of a resolver's cache of addresses in memory, as a power of two.
const recentBits = 13

// forget clears the caches.
func (r *Resolver) forget() {
	clear(r.recent[:])
	clear(r.known[:])
}

// Resolve returns the location of an address in the address space of a CPU mode.
func (r *Resolver) Resolve(item *Item, mode perfdata.Misc, ip uint64) *Location {
	maps := item.maps(mode)
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
	maps, kind := item.maps(mode), profile.UnknownCode
	switch mode {
	case perfdata.MiscUser:
		kind = profile.User
	case perfdata.MiscKernel:
		kind = profile.Kernel
	case perfdata.MiscHypervisor:
		kind = profile.Hypervisor
	case perfdata.MiscGuestKernel:
		kind = profile.GuestKernel
	case perfdata.MiscGuestUser:
		kind = profile.GuestUser
	}
	var dso *DSO
	addr, space := ip, -1-int32(kind)
	if maps != nil {
		if m := maps.find(ip); m != nil {
			dso, addr, space = m.DSO, m.addr(ip), int32(m.DSO.Index)
			kind = dso.Kind
		} else if d := r.replay.machine.image.dso; mode == perfdata.MiscKernel && d != nil && r.replay.isKernel(ip) {
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
		if dso != nil && dso.names != nil && !r.replay.options.NoNames {
			dso.names.locate(l)
		}
		l.last = l.Symbol == nil || l.Addr+1 >= l.Symbol.End
		if kind == profile.Kernel && l.Symbol != nil {
			l.entry, l.thunk = isEntry(l.Symbol.Name), isThunk(l.Symbol.Name)
		}
	})
	*slot = l
	return l
}

// isEntry reports whether the kernel function with this name is an entry point of interrupts and exceptions, for example
// asm_sysvec_apic_timer_interrupt on x86-64 since Linux 5.8 (arch/x86/include/asm/idtentry.h), or el1h_64_irq on arm64 since 5.14
// (arch/arm64/kernel/entry.S).
func isEntry(name string) bool {
	return strings.HasPrefix(name, "asm_") || strings.HasPrefix(name, "el1h_64_") && !strings.HasSuffix(name, "_handler")
}

// isThunk reports whether the kernel function with this name is a thunk of arch/x86/lib/retpoline.S: a retpoline, or the code that
// mitigations run in place of a return, that of a retpoline included.
func isThunk(name string) bool {
	return strings.HasPrefix(name, "__x86_indirect_") || strings.HasSuffix(name, "_return_thunk") || strings.HasSuffix(name, "_safe_ret")
}

// IP returns the location of a sample's instruction pointer.
func (r *Resolver) IP(item *Item) *Location {
	return r.Resolve(item, item.Misc.CPUMode(), item.Sample.IP)
}

// Data returns the location of a sample's data address. The CPU mode can differ from that of the memory: the kernel reads the memory of
// processes.
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

// Branch returns the location of one end of a branch. Branches have no CPU mode: the kernel has the upper half of the addresses.
func (r *Resolver) Branch(item *Item, addr uint64) *Location {
	if addr>>63 != 0 {
		return r.Resolve(item, perfdata.MiscKernel, addr)
	}
	return r.Resolve(item, perfdata.MiscUser, addr)
}

// frame returns the frame of a callchain entry. If the entry is a return address, the frame's location is that of the call. inner is the
// entry before it; it is nil if there is none, or if ip is not a return address.
func (r *Resolver) frame(item *Item, mode perfdata.Misc, ip uint64, inner *Location) Frame {
	if inner != nil && !inner.entry && !(inner.thunk && r.functionAt(item, mode, ip) != nil) {
		call := r.Resolve(item, mode, ip-1)
		if call.DSO != nil && !(call.last && mode == perfdata.MiscUser && r.isRestorer(item, ip)) {
			return Frame{ip, call, true}
		}
	}
	return Frame{ip, r.Resolve(item, mode, ip), false}
}

// functionAt returns the location of ip if a function begins there, otherwise nil.
func (r *Resolver) functionAt(item *Item, mode perfdata.Misc, ip uint64) *Location {
	at := r.Resolve(item, mode, ip)
	if at.Symbol == nil || at.Symbol.Start != at.Addr {
		return nil
	}
	return at
}

// isRestorer reports whether ip is the code that a user's signal handler returns to. Before it is no call, but another function or no code
// at all.
func (r *Resolver) isRestorer(item *Item, ip uint64) bool {
	at := r.functionAt(item, perfdata.MiscUser, ip)
	return at != nil && r.replay.arch().IsRestorer(at.Code)
}

// Callchain returns the callchain of a sample, the innermost frame first: the entries that the kernel recorded, and the callers that bperf
// unwinds from the recorded user stack. The result is valid until the next call. It ends after Options.MaxStack frames, or at an entry that
// is not an address. Without a callchain in the sample, the second result is false.
func (r *Resolver) Callchain(item *Item) ([]Frame, bool) {
	s := item.Sample
	if !s.Fields.Has(perfdata.SampleCallchain) {
		return nil, false
	}
	r.frames = r.frames[:0]
	mode := perfdata.MiscUser
	var inner *Location
	for _, ip := range s.Callchain {
		if perfdata.IsContext(ip) {
			// Without frame pointers, the kernel can read anything in place of return addresses. No mark follows the user's part.
			next, known := modeOf(ip)
			if mode == perfdata.MiscUser && inner != nil || !known && ip != perfdata.ContextUserDeferred {
				r.replay.cutChains.Add(1)
				return r.frames, true
			}
			if ip == perfdata.ContextUserDeferred {
				return r.frames, true // the cookie that follows is not an address
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

// modeOf returns the CPU mode of the addresses after a mark in a callchain. It returns false for unknown marks.
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
