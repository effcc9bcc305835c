package perfdata

import (
	"fmt"
	"slices"
)

// batch is a group of records that one goroutine decodes. Its memory is reused.
type batch struct {
	items   []item
	bytes   int // size of the items
	records []Record
	samples []Sample
	unknown []Unknown
	arena   arena
	coder   coder
	err     error
	decoded chan struct{}
}

// A batch is complete when it has batchSize records, or batchBytes bytes.
const (
	batchSize  = 768
	batchBytes = 96 << 10
)

func (b *batch) reset() {
	clear(b.records)
	b.items, b.records, b.samples, b.unknown = b.items[:0], b.records[:0], b.samples[:0], b.unknown[:0]
	b.bytes, b.err = 0, nil
	b.arena.reset()
}

// decode decodes the records. On an error it sets b.err, and b.records has the records before the bad one.
func (b *batch) decode(t *table, big bool) {
	b.records = slices.Grow(b.records, len(b.items))
	// Records point into samples and unknown, which must not be reallocated.
	b.samples = slices.Grow(b.samples, len(b.items))
	b.unknown = slices.Grow(b.unknown, len(b.items))
	b.arena.words = slices.Grow(b.arena.words, b.bytes/8) // at once: growing by parts takes several times the memory
	for k := range b.items {
		i := &b.items[k]
		r := Record{Time: i.time, Offset: i.chunk.offset(i.at), Raw: i.raw()}
		if err := b.record(&r, t, big); err != nil {
			b.err = fmt.Errorf("at %d: %s of %d bytes: %w", r.Offset, r.Type, len(r.Raw), err)
			return
		}
		b.records = append(b.records, r)
	}
}

func (b *batch) record(r *Record, t *table, big bool) error {
	c := cursor{b: r.Raw, big: big}
	r.Type, r.Misc = RecordType(c.u32()), Misc(c.u16())
	c.u16()
	body := c.b
	if r.Type >= firstUserRecord {
		v, err := decodeUserRecord(r.Raw, big)
		if err != nil {
			return err
		}
		if a, is := v.(*Auxtrace); is {
			a.DataOffset = r.Offset + int64(len(r.Raw))
		}
		r.Value = b.orUnknown(v, r.Type, body)
		return nil
	}
	body = t.trim(r.Type, body)
	c.b = body
	r.Event = t.event(r.Type, body, big)
	switch {
	case r.Event == nil:
		r.Value = b.orUnknown(nil, r.Type, body)
	case r.Type == RecordSample:
		b.samples = b.samples[:len(b.samples)+1]
		s := &b.samples[len(b.samples)-1]
		r.Value = s
		return c.sample(s, &r.Event.Attr, &b.arena)
	default:
		return b.kernelRecord(r, c)
	}
	return nil
}

func (b *batch) kernelRecord(r *Record, c cursor) error {
	newValue := newRecord[r.Type]
	if newValue == nil {
		r.Value = b.orUnknown(nil, r.Type, c.b)
		return nil
	}
	v := newValue()
	attr := &r.Event.Attr
	if attr.Has(AttrSampleIDAll) {
		n := len(c.b) - trailerSize(attr.SampleType)
		if n < 0 {
			return errShort
		}
		end := cursor{b: c.b[n:], big: c.big}
		*v.(interface{ sampleID() *SampleID }).sampleID() = end.trailer(attr.SampleType)
		c.b = c.b[:n]
	}
	b.coder = coder{in: c, misc: r.Misc, attr: attr}
	v.code(&b.coder)
	r.Value = v
	return b.coder.end()
}

// orUnknown returns v, or an *Unknown if v is nil.
func (b *batch) orUnknown(v Value, t RecordType, body []byte) Value {
	if v != nil {
		return v
	}
	b.unknown = append(b.unknown, Unknown{Type: t, Data: body})
	return &b.unknown[len(b.unknown)-1]
}

// decodeUserRecord decodes a record of perf itself. It returns nil for an unknown type.
func decodeUserRecord(raw []byte, big bool) (Value, error) {
	k := coder{in: cursor{b: raw, big: big}}
	newValue := newRecord[RecordType(k.in.u32())]
	k.misc = Misc(k.in.u16())
	k.in.u16()
	if newValue == nil {
		return nil, nil
	}
	v := newValue()
	v.code(&k)
	if err := k.end(); err != nil || k.unknown {
		return nil, err
	}
	return v, nil
}
