package otlp

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/serve/push/pushtest"
	"github.com/bperf/bperf/test/golden"
)

var start = time.Unix(1700000000, 5)

func TestRequest(t *testing.T) {
	r := New()
	r.Add([]Attribute{{"service.name", "web"}, {"container.id", "4f2a"}}, pushtest.Profile(), start, 15*time.Second)
	r.Add([]Attribute{{"service.name", "nothing ran"}}, &profile.Profile{Events: []profile.Event{{Name: "cpu-clock"}}}, start, time.Second)
	r.Add([]Attribute{{"service.name", "evil\n\xff" + strings.Repeat("x", 2000)}}, pushtest.Blocked(), start, 15*time.Second)
	got, err := decode(r.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, dump(r.Bytes()))
	}
	golden.Compare(t, "testdata/request.txt", strings.ReplaceAll(got, strings.Repeat("x", labelLimit-len("evil?\ufffd")-2), "x…"))
	if size := r.Size(); size > len(r.Bytes()) || size < len(r.Bytes())*9/10 {
		t.Errorf("the size is %d of %d", size, len(r.Bytes()))
	}
}

// TestSharedDictionary encodes a profile twice: only its samples are there twice.
func TestSharedDictionary(t *testing.T) {
	r := New()
	r.Add(nil, pushtest.Profile(), start, time.Second)
	once := r.Size() - len(r.resources)
	r.Add(nil, pushtest.Profile(), start, time.Second)
	if twice := r.Size() - len(r.resources); once != twice {
		t.Errorf("the dictionary has %d bytes with a profile, and %d with the same profile twice", once, twice)
	}
}

func TestSampleType(t *testing.T) {
	for _, test := range []struct {
		event      profile.Event
		name, unit string
	}{
		{profile.Event{Name: "cpu-clock", Unit: "ns"}, "cpu", "nanoseconds"},
		{profile.Event{Name: "task-clock:u", Unit: "ns"}, "cpu", "nanoseconds"},
		{profile.Event{Name: "offcpu-time", Unit: "count"}, "off_cpu", "nanoseconds"},
		{profile.Event{Name: "cycles", Unit: "count"}, "cycles", "count"},
		{profile.Event{Name: "cycles:u"}, "cycles_u", "count"},
		{profile.Event{Name: "sched:sched_switch"}, "sched_sched_switch", "count"},
		{profile.Event{Name: "cpu/event=0x3c/"}, "cpu_event_0x3c", "count"},
		{profile.Event{Name: "0\n:"}, "event_0", "count"},
		{profile.Event{Name: "é"}, "event_", "count"},
	} {
		if name, unit := SampleType(test.event); name != test.name || unit != test.unit {
			t.Errorf("%q: got %q and %q, want %q and %q", test.event.Name, name, unit, test.name, test.unit)
		}
	}
}

// FuzzRequest makes profiles of bytes. The independent decoder finds each of their samples, with its value.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("f\x03abc\x00\xffg\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, name := arbitrary(data), string(data)
		r := New()
		r.Add([]Attribute{{"service.name", name}}, p, start, time.Duration(len(data))*time.Second)
		r.Add([]Attribute{{"service.name", name}}, p, start, -1)
		text, err := decode(r.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, dump(r.Bytes()))
		}
		if !utf8.ValidString(text) {
			t.Error("the request has invalid UTF-8")
		}
		var want int
		for _, s := range p.Samples() {
			want += strings.Count(text, fmt.Sprintf("\n  sample %d", signed(s.Value)))
		}
		if got := strings.Count(text, "\n  sample "); got != 2*len(p.Samples()) || want < got {
			t.Errorf("%d samples in the request, and %d values, for two times %d", got, want, len(p.Samples()))
		}
	})
}

// arbitrary makes a profile of bytes, with whatever numbers and names they give.
func arbitrary(data []byte) *profile.Profile {
	next := func(n int) []byte {
		out := make([]byte, n)
		data = data[copy(out, data):]
		return out
	}
	small := func() uint32 { return uint32(next(1)[0]) }
	number := func() uint64 { return binary.LittleEndian.Uint64(next(8)) }
	keys := profile.Keys(binary.LittleEndian.Uint32(next(4)))
	p := profile.New(keys)
	p.Events = make([]profile.Event, 1+small()%3)
	text := func() profile.StringID { return p.Strings.ID(string(next(int(small() % 8)))) }
	for i := range p.Events {
		p.Events[i] = profile.Event{Name: string(next(3)), Unit: string(next(1)), Period: number()}
	}
	for len(data) > 0 {
		module := p.Modules.ID(profile.Module{Path: text(), BuildID: text()})
		if p.Mappings == nil {
			p.Mappings = map[profile.ModuleID][]profile.Mapping{module: {{Start: number(), End: number(), Offset: number()}}}
		}
		program := p.Programs.ID(profile.Program{ID: small(), Name: text(), Tag: text()})
		function := p.Functions.ID(profile.Function{Name: text(), Linkage: text(), Module: module, Program: program, File: text(), StartLine: small()})
		var stack profile.StackID
		var leaf profile.FrameID
		for range small() % 5 {
			flags := small()
			frame := profile.Frame{Module: module, Address: number(), Line: small(), Kind: profile.Kind(flags % 7), Inlined: flags&8 != 0, Return: flags&16 != 0}
			if flags&32 != 0 {
				frame.Function = function
			}
			leaf = p.Frame(frame)
			stack = p.Stacks.Push(stack, leaf)
		}
		if small()%2 == 0 {
			stack = 0
		}
		tags := p.Tags.ID(profile.Tag{Key: text(), Value: text()})
		tags = p.Tags.ID(profile.Tag{Key: text(), Value: text(), Next: tags})
		labels := p.Label(profile.Labels{Comm: text(), PID: int32(small()), TID: -int32(small()), CPU: int32(small()) - 1, Cgroup: text(), Tags: tags})
		p.Add(profile.Sample{Event: small() % uint32(len(p.Events)), Labels: labels, Leaf: leaf, Stack: stack, Count: uint64(small()), Value: number()})
	}
	return p
}
