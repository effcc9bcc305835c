package upstream

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// keySizes has the sizes of struct perf_event_attr in perf: 128 bytes in 6.1 (PERF_ATTR_SIZE_VER7 of
// include/uapi/linux/perf_event.h), 136 in 6.12, 144 in 7.2.
var keySizes = []int{128, 136, newestKey}

const newestKey = 144

// newKeySize returns the key size of the perf of the running kernel's version.
func newKeySize() (int, error) {
	size, err := perfevent.KernelAttrSize()
	if !slices.Contains(keySizes, size) {
		size = newestKey
	}
	return size, err
}

// meaning has the flags in keys: those of modifiers. perf sets other flags, like inherit, only when it opens events, after it has looked
// for a leader.
const meaning = perfdata.AttrPinned | perfdata.AttrExclusive | perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV |
	perfdata.AttrExcludeIdle | perfdata.AttrPreciseIP1 | perfdata.AttrPreciseIP2 | perfdata.AttrExcludeHost | perfdata.AttrExcludeGuest

// tracepointSample is the sample_type that perf sets for a tracepoint, even when it only counts: time, CPU, period and raw
// data, of enum perf_event_sample_format.
const tracepointSample = 1<<2 | 1<<7 | 1<<8 | 1<<10

// Attr returns the event for which a perf that uses this map looks under the same name. The counters of a leader must be
// opened with it before Register.
//
// It differs from attr for perf before 6.13 (keys of 128 bytes and most of 136), which excludes virtual
// machines unless a modifier includes them.
func (a *AttrMap) Attr(attr *perfdata.Attr) perfdata.Attr { return a.variants(attr)[0] }

// variants returns the events that perf may look for under the same name, the most likely first.
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

// forgetsGuests reports whether an event has modifiers with which perf before 6.13 does count virtual machines: any
// except u, p, G and H.
func forgetsGuests(f perfdata.AttrFlags) bool {
	const kernelAndHV = perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	user := f&perfdata.AttrExcludeUser == 0 && f&kernelAndHV != 0
	return f&meaning != 0 && !user
}

// key returns the bytes under which perf registers an event. ok is false if the event needs fields that the keys of this
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
