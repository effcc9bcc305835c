package chains

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

// SampleType returns the sample type of the events that the program writes to, in a recording whose first event has the given one. The records
// that the kernel writes in the name of such an event, of losses, then look like those of the first event.
func SampleType(first perfdata.SampleType) perfdata.SampleType {
	const shared = perfdata.SampleTime | perfdata.SampleStreamID | perfdata.SampleCPU
	return perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleRaw | first&shared
}

// Offsets in samples: all have PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP and PERF_SAMPLE_TID.
const (
	headerSize = 8 // struct perf_event_header: u32 type, u16 misc, u16 size
	idAt       = headerSize
	ipAt       = idAt + 8
	keyEnd     = ipAt + 16
)

// key is what a chain and its sample share: the instruction pointer, the process and the thread.
type key [keyEnd - ipAt]byte

// chain is a chain whose sample has not come yet.
type chain struct {
	of     key
	end    userstack.End
	frames []byte // u64 each
}

// mostPending is the number of chains that can wait for their samples in a ring: an overflow can interrupt another one after its chain.
const mostPending = 8

// Ring is the state of a ring between two calls of Merge.
type Ring struct{ pending []chain }

// layout says where the samples of an event have their callchain.
type layout struct {
	words  int // between header and callchain, without PERF_SAMPLE_READ
	read   bool
	format perfdata.ReadFormat
	most   int // entries of the callchain, without marks; 0 for any number

	samples uint64
}

// Counts say what happened to the samples of the events.
type Counts struct {
	Samples uint64
	Missing uint64                 // samples without a chain
	Cut     [userstack.Ends]uint64 // chains by the reason why they end; the first element is for complete ones
}

// String describes the callchains that are cut or missing. It is empty if all are complete.
func (c Counts) String() string {
	var reasons []string
	percent := func(n uint64) float64 { return 100 * float64(n) / float64(c.Samples) }
	cut := c.Missing
	if c.Missing > 0 {
		reasons = append(reasons, fmt.Sprintf("lost %.1f %%", percent(c.Missing)))
	}
	for end, n := range c.Cut {
		if end := userstack.End(end); end != userstack.Outermost && n > 0 {
			cut += n
			reasons = append(reasons, fmt.Sprintf("%s %.1f %%", end, percent(n)))
		}
	}
	if cut == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% of the samples have user callchains that are cut (%s)", percent(cut), strings.Join(reasons, ", "))
}

// Merger moves chains into samples. It is not safe for concurrent use.
type Merger struct {
	events  map[uint64]*layout // by ID: whose samples get chains
	outputs map[uint64]bool    // IDs of the events that the program writes to
	inPlace uint64             // replaces these IDs in other records than samples
	rawAt   int                // in the samples of outputs
	counts  Counts
	out     []byte // reused
}

// NewMerger returns a Merger for a recording whose first event has the sample type first and the ID inPlace.
func NewMerger(first perfdata.SampleType, inPlace uint64) *Merger {
	const before = perfdata.SampleTime | perfdata.SampleStreamID | perfdata.SampleCPU
	return &Merger{events: make(map[uint64]*layout), outputs: make(map[uint64]bool), inPlace: inPlace,
		rawAt: keyEnd + 8*bits.OnesCount64(uint64(SampleType(first)&before))}
}

// Event adds an event whose samples get chains.
func (m *Merger) Event(attr *perfdata.Attr, ids []uint64) {
	const before = perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleAddr |
		perfdata.SampleEventID | perfdata.SampleStreamID | perfdata.SampleCPU | perfdata.SamplePeriod
	l := &layout{words: bits.OnesCount64(uint64(attr.SampleType & before)), read: attr.SampleType&perfdata.SampleRead != 0,
		format: attr.ReadFormat, most: int(attr.SampleMaxStack)}
	for _, id := range ids {
		m.events[id] = l
	}
}

// Output adds an event that the program writes to.
func (m *Merger) Output(ids []uint64) {
	for _, id := range ids {
		m.outputs[id] = true
	}
}

// Counts returns what happened so far.
func (m *Merger) Counts() Counts { return m.counts }

// Samples returns the number of samples of the event with an ID.
func (m *Merger) Samples(id uint64) uint64 {
	if l := m.events[id]; l != nil {
		return l.samples
	}
	return 0
}

// Merge returns the records of a ring, which come in two parts, with the chains in their samples. The result is valid until the next call.
// Records after one with a wrong size stay as they are.
func (m *Merger) Merge(r *Ring, first, rest []byte) []byte {
	ne := binary.NativeEndian
	m.out = m.out[:0]
	records := first
	if len(rest) > 0 {
		records = slices.Concat(first, rest)
	}
	for len(records) >= headerSize {
		size := int(ne.Uint16(records[6:]))
		if size < headerSize || size > len(records) {
			break
		}
		m.record(r, records[:size])
		records = records[size:]
	}
	m.out = append(m.out, records...)
	for i := range r.pending { // the ring's memory is about to be overwritten
		r.pending[i].frames = slices.Clone(r.pending[i].frames)
	}
	return m.out
}

// record appends a record to m.out, unless it is a chain.
func (m *Merger) record(r *Ring, b []byte) {
	ne := binary.NativeEndian
	kind := perfdata.RecordType(ne.Uint32(b))
	if kind != perfdata.RecordSample {
		m.other(r, kind, b)
		return
	}
	if len(b) < keyEnd {
		m.out = append(m.out, b...)
		return
	}
	id := ne.Uint64(b[idAt:])
	if m.outputs[id] {
		r.add(b, m.rawAt)
		return
	}
	l := m.events[id]
	if l == nil {
		m.out = append(m.out, b...)
		return
	}
	l.samples++
	m.counts.Samples++
	c, found := r.take(key(b[ipAt:keyEnd]))
	at, chained := l.find(b)
	switch {
	case found && chained:
		m.counts.Cut[min(c.end, userstack.Ends-1)]++
		m.merge(l, b, at, c.frames)
	case chained && inUserMode(b): // one frame is known
		m.counts.Missing++
		m.merge(l, b, at, b[ipAt:ipAt+8])
	default:
		if ne.Uint32(b[ipAt+12:]) != 0 { // the idle task has no user callchain
			m.counts.Missing++
		}
		m.out = append(m.out, b...)
	}
}

func inUserMode(b []byte) bool {
	return perfdata.Misc(binary.NativeEndian.Uint16(b[4:])).CPUMode() == perfdata.MiscUser
}

// other appends a record that is no sample. After lost records, no chain waits any more: its sample may be among them, and the next one that
// looks the same has another chain.
func (m *Merger) other(r *Ring, kind perfdata.RecordType, b []byte) {
	const trailingID, lostID = 8, headerSize // from the end; of struct PERF_RECORD_LOST
	ne := binary.NativeEndian
	if kind == perfdata.RecordLost || kind == perfdata.RecordLostSamples {
		r.pending = r.pending[:0]
	}
	from := len(m.out)
	m.out = append(m.out, b...)
	b = m.out[from:]
	if len(b) < headerSize+trailingID {
		return
	}
	replace := func(id []byte) {
		if m.outputs[ne.Uint64(id)] {
			ne.PutUint64(id, m.inPlace)
		}
	}
	replace(b[len(b)-trailingID:])
	if kind == perfdata.RecordLost {
		replace(b[lostID:])
	}
}

// add keeps the chain of a record that the program has written.
func (r *Ring) add(b []byte, rawAt int) {
	ne := binary.NativeEndian
	if len(b) < rawAt+8 { // raw data: its size, then the reason why the chain ends
		return
	}
	if len(r.pending) == mostPending {
		r.pending = slices.Delete(r.pending, 0, 1)
	}
	frames := b[rawAt+8:]
	size := int(ne.Uint32(b[rawAt:])) - 4
	size = max(0, min(size, len(frames))) &^ 7
	r.pending = append(r.pending, chain{of: key(b[ipAt:keyEnd]), end: userstack.End(ne.Uint32(b[rawAt+4:])), frames: frames[:size]})
}

// take removes and returns the newest chain for a sample, and drops those that are newer: their samples would have come before.
func (r *Ring) take(of key) (c chain, found bool) {
	for i, c := range slices.Backward(r.pending) {
		if c.of == of {
			r.pending = r.pending[:i]
			return c, true
		}
	}
	return chain{}, false
}

// find returns the offset of the callchain in a sample, and false if there is no room for the callchain that the sample claims to have.
func (l *layout) find(b []byte) (at int, ok bool) {
	ne := binary.NativeEndian
	at = headerSize + 8*l.words
	if l.read {
		var times, values, each = bits.OnesCount64(uint64(l.format & (perfevent.ReadFormatTimes))), uint64(1), 1
		each += bits.OnesCount64(uint64(l.format & (perfdata.ReadID | perfdata.ReadLost)))
		if l.format&perfdata.ReadGroup != 0 {
			if len(b) < at+8 {
				return 0, false
			}
			values = ne.Uint64(b[at:])
			at += 8
		}
		if values > uint64(len(b)) {
			return 0, false
		}
		at += 8 * (times + each*int(values))
	}
	if len(b) < at+8 {
		return 0, false
	}
	return at, ne.Uint64(b[at:]) <= uint64(len(b)-at-8)/8
}

// mostRecord is the size of the largest record: a multiple of 8 that fits into 16 bits.
const mostRecord = 1<<16 - 8

// merge appends a sample whose callchain is at an offset, with other frames of the user. It cuts them where the record would become too long.
func (m *Merger) merge(l *layout, b []byte, at int, frames []byte) {
	ne := binary.NativeEndian
	entries := b[at+8 : at+8+8*int(ne.Uint64(b[at:]))]
	after := b[at+8+len(entries):]
	kernel, marks := len(entries), 0
	for i := 0; i < len(entries); i += 8 {
		entry := ne.Uint64(entries[i:])
		if entry == perfdata.ContextUser {
			kernel = i
			break
		}
		if perfdata.IsContext(entry) {
			marks++
		}
	}
	entries = entries[:kernel]
	if room := 8 * (l.most + marks - kernel/8); l.most > 0 {
		frames = frames[:min(len(frames), max(0, room))]
	}
	room := mostRecord - (at + 8 + kernel + 8 + len(after))
	frames = frames[:min(len(frames), max(0, room)&^7)]
	size := at + 8 + kernel + len(after)
	number := kernel / 8
	if len(frames) > 0 {
		size += 8 + len(frames)
		number += 1 + len(frames)/8
	}
	from := len(m.out)
	m.out = append(m.out, b[:at]...)
	ne.PutUint16(m.out[from+6:], uint16(size))
	m.out = append(ne.AppendUint64(m.out, uint64(number)), entries...)
	if len(frames) > 0 {
		m.out = append(ne.AppendUint64(m.out, perfdata.ContextUser), frames...)
	}
	m.out = append(m.out, after...)
}
