package upstream

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// keySizes are the sizes that struct perf_event_attr has in perf: 128 bytes in 6.1 (PERF_ATTR_SIZE_VER7 of
// include/uapi/linux/perf_event.h), 136 in 6.12, 144 in 7.2.
var keySizes = []int{128, 136, newestKey}

const newestKey = 144

// newKeySize is the size that keys have in perf of the running kernel's version.
func newKeySize() (int, error) {
	size, err := perfevent.KernelAttrSize()
	if !slices.Contains(keySizes, size) {
		size = newestKey
	}
	return size, err
}

// meaning are the flags that perf has set when it looks for a leader: those of modifiers. It sets others, like inherit, only
// when it opens events, and so they are in no key.
const meaning = perfdata.AttrPinned | perfdata.AttrExclusive | perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV |
	perfdata.AttrExcludeIdle | perfdata.AttrPreciseIP1 | perfdata.AttrPreciseIP2 | perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest

// tracepointSample is what perf wants to know of each hit of a tracepoint, also when it counts: time, CPU, period and raw
// data, of enum perf_event_sample_format.
const tracepointSample = 1<<2 | 1<<7 | 1<<8 | 1<<10

// Attr is the event that perf means by the same name, if it is a perf that uses this map. The counters of a leader that is
// to be registered have to be opened with it.
//
// It differs from attr for perf before 6.13 (keys of 128 bytes and most of 136), which leaves out what runs in virtual
// machines unless a modifier says otherwise.
func (a *AttrMap) Attr(attr *perfdata.Attr) perfdata.Attr { return a.variants(attr)[0] }

// variants are the events that perf may mean by the same name, the likeliest first.
func (a *AttrMap) variants(attr *perfdata.Attr) []perfdata.Attr {
	everywhere := *attr
	const guests = perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest
	if a.keySize == newestKey || everywhere.Flags&guests != 0 {
		return []perfdata.Attr{everywhere}
	}
	hostOnly := everywhere
	hostOnly.Flags |= perfdata.AttrExcludeGuest
	if forgetsGuests(everywhere.Flags) {
		return []perfdata.Attr{everywhere, hostOnly}
	}
	return []perfdata.Attr{hostOnly, everywhere}
}

// forgetsGuests reports whether an event has modifiers with which perf before 6.13 counts virtual machines after all: any
// but u, p, G and H.
func forgetsGuests(f perfdata.AttrFlags) bool {
	const kernelAndHV = perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	user := f&perfdata.AttrExcludeUser == 0 && f&kernelAndHV != 0
	return f&meaning != 0 && !user
}

// key is the bytes under which perf registers an event. There are none for an event that needs fields which keys of this
// map do not have.
func (a *AttrMap) key(attr *perfdata.Attr) (key []byte, ok bool) {
	k := *attr
	k.Size = uint32(a.keySize)
	k.Flags &= meaning
	k.SamplePeriod, k.SampleType, k.ReadFormat, k.WakeupEvents = 0, 0, 0, 0
	switch k.Type {
	case perfdata.TypeTracepoint:
		k.SamplePeriod, k.SampleType = 1, tracepointSample
	case perfdata.TypeBreakpoint:
		k.SamplePeriod = 1
	}
	all, err := binary.Append(nil, binary.NativeEndian, &k)
	if err != nil {
		panic(err) // the structure has a fixed size
	}
	key, rest := all[:a.keySize], all[a.keySize:]
	return key, len(bytes.Trim(rest, "\x00")) == 0
}
