package perfevent

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
)

// Trailer is the end of a record other than a sample, if the event has the flag AttrSampleIDAll and the sample type TrailerFormat:
// struct sample_id.
type Trailer struct {
	PID, TID int32  // task that caused the record, in the PID namespace of the event's opener; 0 if it is not in that namespace
	Time     uint64 // ns of the event's clock
}

// TrailerFormat is the sample type that an event must have for this package to decode its records.
const TrailerFormat = perfdata.SampleTID | perfdata.SampleTime

const trailerSize = 16

// KSymbol is a RecordKSymbol: a kernel symbol was registered or unregistered. Linux 5.1.
type KSymbol struct {
	Trailer
	Address uint64
	Size    uint32 // bytes
	Type    uint16 // KSymbolBPF, …
	Gone    bool
	Name    string
}

// KSymbolBPF is the type of functions of BPF programs, trampolines and dispatchers.
const KSymbolBPF = unix.PERF_RECORD_KSYMBOL_TYPE_BPF

// BPFEvent is a RecordBPFEvent: a BPF program was loaded or unloaded. Linux 5.1.
type BPFEvent struct {
	Trailer
	Type uint16 // BPFLoad, BPFUnload
	ID   uint32
	Tag  [8]byte
}

// The values of BPFEvent.Type: enum perf_bpf_event_type.
const (
	BPFLoad   = 1
	BPFUnload = 2
)

// Lost is a RecordLost: the number of records that the kernel has dropped since the last record because the ring was full.
type Lost struct {
	Trailer
	Records uint64
}

// KSymbol decodes a RecordKSymbol.
func (r Record) KSymbol() (k KSymbol, err error) {
	const fixed = 16
	size := fixed
	if len(r.Body) > fixed {
		size += (bytes.IndexByte(r.Body[fixed:], 0) + 8) &^ 7 // the name with its NUL, padded to 8 bytes
	}
	body, err := r.upTo(size).cut(&k.Trailer, "a symbol of the kernel", fixed)
	if err != nil {
		return k, err
	}
	ne := binary.NativeEndian
	k.Address, k.Size, k.Type = ne.Uint64(body), ne.Uint32(body[8:]), ne.Uint16(body[12:])
	k.Gone = ne.Uint16(body[14:])&unix.PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER != 0
	k.Name = unix.ByteSliceToString(body[16:])
	return k, nil
}

// BPFEvent decodes a RecordBPFEvent.
func (r Record) BPFEvent() (e BPFEvent, err error) {
	const fixed = 16
	body, err := r.upTo(fixed).cut(&e.Trailer, "an event of a BPF program", fixed)
	if err != nil {
		return e, err
	}
	ne := binary.NativeEndian
	e.Type, e.ID = ne.Uint16(body), ne.Uint32(body[4:])
	copy(e.Tag[:], body[8:])
	return e, nil
}

// Lost decodes a RecordLost.
func (r Record) Lost() (l Lost, err error) {
	body, err := r.cut(&l.Trailer, "lost records", 16)
	if err != nil {
		return l, err
	}
	l.Records = binary.NativeEndian.Uint64(body[8:])
	return l, nil
}

// upTo returns the record cut off after its trailer; fields is the size of the fields before the trailer. The kernel outputs a record
// about a BPF program to all events with one header, and adds a trailer to the header's size for each event (perf_event_ksymbol_output and
// perf_event_bpf_output in kernel/events/core.c). So in every ring but the first, stale bytes of the ring follow the trailer.
func (r Record) upTo(fields int) Record {
	r.Body = r.Body[:min(len(r.Body), fields+trailerSize)]
	return r
}

// cut decodes the trailer and returns the body before it, which must have at least least bytes.
func (r Record) cut(t *Trailer, what string, least int) ([]byte, error) {
	n := len(r.Body) - trailerSize
	if n < least {
		return nil, fmt.Errorf("a record of %s has %d bytes, not %d or more", what, len(r.Body), least+trailerSize)
	}
	ne := binary.NativeEndian
	end := r.Body[n:]
	t.PID, t.TID, t.Time = int32(ne.Uint32(end)), int32(ne.Uint32(end[4:])), ne.Uint64(end[8:])
	return r.Body[:n], nil
}
