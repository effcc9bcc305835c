package perfdata

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// readAll reads a recording to its end. It ignores errors.
func readAll(b []byte, pipe bool) {
	var r *Reader
	var err error
	if pipe {
		r, err = NewPipeReader(bytes.NewReader(b))
	} else {
		r, err = NewReader(bytes.NewReader(b), int64(len(b)))
	}
	if err != nil {
		return
	}
	defer r.Close()
	for range r.Records() {
	}
	for _, id := range r.Features().IDs() {
		r.Features().Get(id)
	}
	r.Stats()
}

func seedWithRecordings(f *testing.F) {
	for _, path := range recordings(f) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzFile(f *testing.F) {
	seedWithRecordings(f)
	f.Fuzz(func(_ *testing.T, b []byte) { readAll(b, false) })
}

func FuzzPipe(f *testing.F) {
	seedWithRecordings(f)
	f.Fuzz(func(_ *testing.T, b []byte) { readAll(b, true) })
}

// FuzzRecord decodes a record of an event with arbitrary attributes. Encoding and decoding the value again must not change it.
func FuzzRecord(f *testing.F) {
	for _, path := range recordings(f) {
		r, err := Open(path)
		if err != nil {
			f.Fatal(err)
		}
		for rec, err := range r.Records() {
			if err != nil {
				f.Fatal(err)
			}
			attr := everyAttr
			if rec.Event != nil {
				attr = rec.Event.Attr
			}
			f.Add(bytes.Clone(rec.Raw), appendAttr(nil, &attr, AttrSize), false)
		}
		r.Close()
	}
	for _, v := range everyValue() {
		f.Add(appendRecord(nil, MiscUser, v, &everyAttr), appendAttr(nil, &everyAttr, AttrSize), false)
	}
	f.Fuzz(func(t *testing.T, raw, attr []byte, big bool) {
		v, misc, event := decodeOne(raw, attr, big)
		if v == nil {
			return
		}
		again := appendRecord(nil, misc, v, &event.Attr)
		if len(again) > maxRecord {
			return
		}
		event.Attr.Size = 0
		second, _, _ := decodeOne(again, appendAttr(nil, &event.Attr, AttrSize), false)
		if diff := cmp.Diff(v, second, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), ignoreTrailerFields, ignorePlace); diff != "" && !narrowed(v) {
			t.Errorf("-first +second\n%s", diff)
		}
	})
}

// ignorePlace ignores the offset of a record, which is not part of its encoding.
var ignorePlace = cmpopts.IgnoreFields(Auxtrace{}, "DataOffset")

// decodeOne decodes a record of an event with the encoded attributes attr. It returns nil if that fails.
func decodeOne(raw, attr []byte, big bool) (Value, Misc, *Event) {
	a, err := decodeAttr(attr, big)
	if err != nil || len(raw) < recordHeaderSize {
		return nil, 0, nil
	}
	e := &Event{Attr: a}
	b := &batch{items: make([]item, 1), samples: make([]Sample, 0, 1), unknown: make([]Unknown, 0, 1)}
	r := Record{Raw: raw}
	if b.record(&r, newTable([]*Event{e}), big) != nil {
		return nil, 0, nil
	}
	return keep(r.Value), r.Misc, e
}

// narrowed reports whether encoding may change a value: numbers that have no room, strings that end at their first NUL, and undecoded data
// of a big-endian machine.
func narrowed(v Value) bool {
	switch v := v.(type) {
	case *Unknown:
		return true
	case *CPUMap:
		return len(v.CPUs) >= anyCPU || len(v.CPUs) > 0 && v.CPUs[len(v.CPUs)-1] >= anyCPU
	case *EventUpdate:
		return len(v.CPUs.CPUs) >= anyCPU || len(v.CPUs.CPUs) > 0 && v.CPUs.CPUs[len(v.CPUs.CPUs)-1] >= anyCPU
	case *HeaderEventType:
		return len(v.Name) > 63
	case *ThreadMap, *AuxtraceError, *BPFMetadata:
		return true // strings without a NUL at the end lose their last character
	case *HeaderAttr:
		return true // its size may be too small for its fields
	}
	return false
}

// FuzzFeature decodes a feature. Encoding and decoding the value again must not change it.
func FuzzFeature(f *testing.F) {
	for _, path := range recordings(f) {
		r, err := Open(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, id := range r.Features().IDs() {
			raw, _ := r.Features().Raw(id)
			f.Add(uint32(id), raw, uint32(2), false)
		}
		r.Close()
	}
	for id, v := range everyFeature {
		f.Add(uint32(id), appendFeature(v), uint32(2), false)
	}
	f.Fuzz(func(t *testing.T, id uint32, b []byte, cpus uint32, big bool) {
		v, err := decodeFeature(FeatureID(id), b, big, cpus)
		if err != nil {
			return
		}
		if _, opaque := v.(Opaque); opaque {
			return
		}
		again, err := decodeFeature(FeatureID(id), appendFeature(v), false, cpus)
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if diff := cmp.Diff(v, again, cmpopts.EquateEmpty()); diff != "" && !narrowedFeature(v) {
			t.Errorf("-first +second\n%s", diff)
		}
	})
}

func narrowedFeature(v FeatureValue) bool {
	switch v := v.(type) {
	case CPUTopology:
		return len(v.Dies) == 0 // CPUs may have dies without a list of dies
	case BuildIDs, EventDescriptions:
		return true // sizes may be too small for the fields, or too large to encode
	}
	return false
}

// TestDamage reads recordings that are truncated, and recordings with flipped bits.
func TestDamage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, path := range recordings(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			readAll(b[:random.IntN(len(b))], false)
			bad := bytes.Clone(b)
			for range 1 + random.IntN(8) {
				at := random.IntN(len(bad))
				if random.IntN(2) == 0 {
					at = random.IntN(min(len(bad), 1024)) // in the front, where more depends on each bit
				}
				bad[at] ^= 1 << random.IntN(8)
			}
			readAll(bad, false)
		}
	}
}
