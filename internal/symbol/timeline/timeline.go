// Package timeline names code that comes and goes by its address and the time: BPF programs and trampolines in the kernel, and what JIT
// compilers make.
package timeline

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

// Region is code that had a name for a time.
type Region struct {
	Name       string
	Start, End uint64
	From, To   uint64 // times of the recording's clock, in ns; To is the largest number as long as the region is there
	Type       uint16 // in the kernel PERF_RECORD_KSYMBOL_TYPE_* of include/uapi/linux/perf_event.h: 1 BPF, 2 code out of line
	ID         uint32 // of the BPF program, 0 if it is none or not known; elsewhere what the event has
}

// Event is a PERF_RECORD_KSYMBOL or PERF_RECORD_BPF_EVENT, or what a JIT compiler did.
type Event struct {
	Time uint64
	What What

	// Of code.
	Address uint64
	Size    uint64
	Type    uint16
	Name    string

	ID uint32 // of code, or of the BPF program

	// Of a BPF_EVENT: the beginning of the name of the program's first function (bpf_prog_<tag>), and the addresses of its functions, as
	// far as they are known (from bpf_prog_info).
	Prefix    string
	Functions []uint64
}

// What happened.
type What uint8

const (
	Register   What = iota // KSYMBOL, or code is there
	Unregister             // KSYMBOL with PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, or code is no longer there
	Load                   // BPF_EVENT of type PERF_BPF_EVENT_PROG_LOAD
)

// Timeline tells which code was where and when. It does not change, so goroutines may share it; With makes another one.
type Timeline struct {
	events []Event // in the order of time

	starts  []uint64 // each address at which regions start, once
	first   []int32  // of each of these, the index of its first region; one more at the end
	regions []Region // by start, and then by time
	longest uint64   // size of a region
}

// With returns a Timeline that has more events. Those of the same time are taken in the order in which they come here.
func (t *Timeline) With(events []Event) *Timeline {
	all := append(slices.Clip(t.events), events...)
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	starts := make([]uint64, len(all))
	for i := range all {
		starts[i] = all[i].Address
	}
	b := builder{starts: newAddresses(starts)}
	b.live = slices.Repeat([]int32{none}, len(b.starts.all))
	for i := range all {
		b.add(&all[i])
	}
	slices.SortStableFunc(b.regions, func(a, b Region) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.From, b.From)) })
	n := &Timeline{events: all, regions: b.regions}
	for i := range n.regions {
		if i == 0 || n.regions[i].Start != n.regions[i-1].Start {
			n.starts, n.first = append(n.starts, n.regions[i].Start), append(n.first, int32(i))
		}
		n.longest = max(n.longest, n.regions[i].End-n.regions[i].Start)
	}
	n.first = append(n.first, int32(len(n.regions)))
	return n
}

// Regions are all of them, by address and then by time. They are the timeline's own: to be read only.
func (t *Timeline) Regions() []Region { return t.regions }

// maxSteps is how many starts of regions Find looks at, from the address downwards: there are that many only where code was loaded and
// unloaded over and over within what is now one region.
const maxSteps = 4096

// Find returns the region that was at an address at a time, or nil. Where several were, it is the one that starts last, as the sizes of
// trampolines are too large (a page) in Linux before 6.9. It does not allocate.
func (t *Timeline) Find(time, addr uint64) *Region {
	lo, hi := 0, len(t.starts)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if t.starts[mid] <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= max(0, lo-maxSteps); i-- {
		if addr-t.starts[i] >= t.longest {
			return nil
		}
		r := t.at(i, time)
		if r == nil {
			continue
		}
		if addr < r.End {
			return r
		}
		return nil
	}
	return nil
}

// at is the region that was there at a time, of those that start at one address.
func (t *Timeline) at(start int, time uint64) *Region {
	same := t.regions[t.first[start]:t.first[start+1]]
	n := sort.Search(len(same), func(i int) bool { return same[i].From > time })
	if n == 0 || same[n-1].To <= time {
		return nil
	}
	return &same[n-1]
}

// builder makes regions of events in the order of time.
type builder struct {
	regions []Region
	starts  *addresses // where regions start that are there
	live    []int32    // these regions, by the index of the start; none where there is none
	news    []int      // regions that belong to no program yet
}

const none = -1

func (b *builder) add(e *Event) {
	switch e.What {
	case Register:
		b.register(e)
	case Unregister:
		if i := b.starts.index(e.Address); b.live[i] != none {
			b.end(i, e.Time)
		}
	case Load:
		b.load(e)
	}
}

func (b *builder) register(e *Event) {
	start := b.starts.index(e.Address)
	if n := b.live[start]; n != none {
		r := &b.regions[n]
		if e.ID == 0 && r.Name == e.Name && r.End-r.Start == e.Size { // told twice: while the recording began, and by the kernel
			return
		}
		b.end(start, e.Time)
	}
	end := e.Address + e.Size
	if end < e.Address || e.Size == 0 {
		return
	}
	if !isTrampoline(e.Name) {
		b.endWithin(start, end, e.Time)
	}
	b.live[start] = int32(len(b.regions))
	b.starts.add(start)
	if e.Type == typeBPF && !isTrampoline(e.Name) {
		b.news = append(b.news, len(b.regions))
		b.news = b.news[max(0, len(b.news)-maxNews):]
	}
	b.regions = append(b.regions, Region{Name: e.Name, Start: e.Address, End: end, From: e.Time, To: math.MaxUint64, Type: e.Type, ID: e.ID})
}

// maxNews is how many functions wait for their program to be told: more than the 256 that one can have, for a few that load at a time.
const maxNews = 1024

// typeBPF is PERF_RECORD_KSYMBOL_TYPE_BPF.
const typeBPF = 1

// isTrampoline tells code that the kernel gives the size of a page, which it may share with others.
func isTrampoline(name string) bool {
	return strings.HasPrefix(name, "bpf_trampoline_") || strings.HasPrefix(name, "bpf_dispatcher_")
}

// endWithin ends what is known to start within new code: it must be gone, and its end was lost.
func (b *builder) endWithin(start int, end, time uint64) {
	for i := b.starts.next(start); i < len(b.live) && b.starts.all[i] < end; i = b.starts.next(i) {
		b.end(i, time)
	}
}

func (b *builder) end(start int, time uint64) {
	b.regions[b.live[start]].To = time
	b.live[start] = none
	b.starts.remove(start)
}

// load gives the functions of a program its ID. The kernel tells of the functions first. Where their addresses are not known, it is the
// oldest with the program's tag that belongs to no program yet.
func (b *builder) load(e *Event) {
	mine := func(n int) bool { return slices.Contains(e.Functions, b.regions[n].Start) }
	if len(e.Functions) == 0 {
		found := false
		mine = func(n int) bool {
			first := !found && e.Prefix != "" && strings.HasPrefix(b.regions[n].Name, e.Prefix)
			found = found || first
			return first
		}
	}
	b.news = slices.DeleteFunc(b.news, func(n int) bool {
		if !mine(n) {
			return false
		}
		b.regions[n].ID = e.ID
		return true
	})
}
