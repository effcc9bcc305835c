package perfevent

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
)

// Trailer is what records other than samples end with, if the event has the flag SampleIDAll and the sample type TrailerFormat:
// struct sample_id.
type Trailer struct {
	PID, TID int32  // of who caused the record, in the PID namespace of who opened the event: 0 if it is not in there
	Time     uint64 // ns of the event's clock
}

// TrailerFormat is the sample type of events whose records are decoded here.
const TrailerFormat = perfdata.SampleTID | perfdata.SampleTime

const trailerSize = 16

// KSymbol is a RecordKSymbol: code of the kernel came, or went. Linux 5.1.
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

// BPFEvent is a RecordBPFEvent: something happened to a BPF program. Linux 5.1.
type BPFEvent struct {
	Trailer
	Type uint16 // BPFLoad, BPFUnload
	ID   uint32
	Tag  [8]byte
}

// What happens to BPF programs: enum perf_bpf_event_type.
const (
	BPFLoad   = 1
	BPFUnload = 2
)

// Lost is a RecordLost: so many records found no room since the last that did.
type Lost struct {
	Trailer
	Records uint64
}

// KSymbol decodes a record of this type.
func (r Record) KSymbol() (k KSymbol, err error) {
	const fixed = 16
	size := fixed
	if len(r.Body) > fixed {
		size += (bytes.IndexByte(r.Body[fixed:], 0) + 8) &^ 7 // the name, with a 0
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

// BPFEvent decodes a record of this type.
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

// Lost decodes a record of this type.
func (r Record) Lost() (l Lost, err error) {
	body, err := r.cut(&l.Trailer, "lost records", 16)
	if err != nil {
		return l, err
	}
	l.Records = binary.NativeEndian.Uint64(body[8:])
	return l, nil
}

// upTo is the record without what is behind its fields, of such a size, and its trailer. The kernel tells all events of a BPF program with one header,
// whose size grows by a trailer for each of them (perf_event_ksymbol_output and perf_event_bpf_output in kernel/events/core.c): in all but the
// first one's ring, something that was there before follows.
func (r Record) upTo(fields int) Record {
	r.Body = r.Body[:min(len(r.Body), fields+trailerSize)]
	return r
}

// cut takes the trailer off and checks that enough is left.
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
