package tracedata

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

const head = `name: test
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:int number;	offset:2;	size:4;	signed:1;
	field:u8 bytes[6];	offset:6;	size:6;	signed:0;
	field:char name[4];	offset:12;	size:4;	signed:0;
	field:__data_loc char[] text;	offset:16;	size:4;	signed:0;
	field:unsigned long long big;	offset:20;	size:8;	signed:0;
	field:__data_loc u32[] list;	offset:28;	size:4;	signed:0;
	field:short small;	offset:32;	size:2;	signed:1;

print fmt: `

// raw returns a record in that format.
func raw() []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, 7)
	b = le.AppendUint32(b, uint32(0xfffffffb)) // -5
	b = append(b, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02)
	b = append(b, "ab\x00x"...)
	b = le.AppendUint32(b, 6<<16|34)
	b = le.AppendUint64(b, 1<<40|0x12)
	b = le.AppendUint32(b, 8<<16|40)
	b = le.AppendUint16(b, 0xfffe)
	b = append(b, "hello\x00"...)
	b = le.AppendUint32(b, 17)
	return le.AppendUint32(b, 258)
}

func TestAppendText(t *testing.T) {
	resolve := func(addr uint64) (string, uint64, bool) { return "do_it", addr & 0xff, true }
	tests := []struct{ print, want string }{
		{`"plain 100%%"`, "plain 100%"},
		{`"a" "b %d", REC->number`, "ab -5"},
		{`"%u %x %5d|%-5d|%05d", REC->number, REC->number, REC->number, REC->number, REC->number`, "4294967291 fffffffb    -5|-5   |-0005"},
		{`"%llx %#llx %lu %016llx", REC->big, REC->big, REC->big, REC->big`, "10000000012 0x10000000012 1099511627794 0000010000000012"},
		{`"%hd %hu %hhx", REC->small, REC->small, REC->number`, "-2 65534 fb"},
		{`"%s|%s|%.*s|%6s", REC->name, __get_str(text), 3, __get_str(text), REC->name`, "ab|hello|hel|    ab"},
		{`"%c%o", 'x', 8`, "x10"},
		{`"%d", REC->small < 0 ? 1 : 2`, "1"},
		{`"%s", REC->big > 5 ? "much" : "little"`, "much"},
		{`"%d %d", ((unsigned int) ((REC->big) >> 20)), (u8)REC->number`, "1048576 251"},
		{`"%d", REC->number * 2 + 3 % 2 - (1 << 3) | 1`, "-17"},
		{`"%s", __print_flags(REC->number & 5, "|", { 1, "one" }, { 2, "two" })`, "one"},
		{`"%s", __print_flags(0, "|", { 0, "none" }, { 1, "one" })`, "none"},
		{`"%s", __print_flags(0x13, ", ", { 1, "one" }, { 2, "two" })`, "one, two, 0x10"},
		{`"%s %s", __print_symbolic(REC->number, { -5, "minus five" }, { 1, "one" }), __print_symbolic(9, { 1, "one" })`, "minus five 0x9"},
		{`"%s", __print_symbolic(1, { UNKNOWN_ENUM, "no" }, { TIMER_SOFTIRQ, "timer" })`, "timer"},
		{`"%s %s", __print_hex(REC->bytes, 3), __print_hex_str(REC->bytes, 6)`, "de ad be deadbeef0102"},
		{`"%s %d", __print_array(__get_dynamic_array(list), 2, 4), __get_dynamic_array_len(list)`, "{0x11,0x102} 8"},
		{`"%02x %02x", REC->bytes[0], ((u8 *)REC->bytes)[3]`, "de ef"},
		{`"%pM %pI4", REC->bytes, REC->bytes`, "de:ad:be:ef:01:02 222.173.190.239"},
		{`"%ps %pS", (void *)REC->big, (void *)REC->big`, "do_it do_it+0x12"},
		{`"%p %p", REC->big, 0`, "0x10000000012 (nil)"},
		{`"%zu", sizeof(REC->bytes) + sizeof(u64)`, "14"},
		{`"%d", ({ int x = 1; x; })`, "[FAILED TO PARSE] number=-5 bytes=ARRAY[de, ad, be, ef, 01, 02] name=ab text=hello big=1099511627794 " +
			"list=ARRAY[11, 00, 00, 00, 02, 01, 00, 00] small=-2"},
		{`"%d %d", REC->number`, "[FAILED TO PARSE] number=-5 bytes=ARRAY[de, ad, be, ef, 01, 02] name=ab text=hello big=1099511627794 " +
			"list=ARRAY[11, 00, 00, 00, 02, 01, 00, 00] small=-2"},
	}
	for _, tt := range tests {
		f, err := parseFormat("test", head+tt.print+"\n", binary.LittleEndian, 8)
		if err != nil {
			t.Errorf("%s: %v", tt.print, err)
			continue
		}
		if got := string(f.AppendText(nil, raw(), resolve)); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q (%v)", tt.print, got, tt.want, f.PrintErr)
		}
		for n := range raw() {
			f.AppendText(nil, raw()[:n], nil) // a cut record must not panic
		}
	}
}

// section returns the feature of a recording by perf.
func section(t testing.TB) []byte {
	t.Helper()
	r, err := perfdata.Open("../../perfdata/testdata/tracepoint.data")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, there := r.Features().Raw(perfdata.FeatureTracingData)
	if !there {
		t.Fatal("the recording has no tracing data")
	}
	return b
}

func TestParse(t *testing.T) {
	b := section(t)
	d, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.byID) == 0 || len(d.Bad) != 0 || d.LongSize != 8 {
		t.Errorf("%d formats, bad %v, long of %d", len(d.byID), d.Bad, d.LongSize)
	}
	for at := range min(len(b), 2000) {
		if _, err := Parse(b[:at]); err == nil {
			t.Fatalf("no error for the first %d bytes", at)
		}
	}
}

func FuzzParse(f *testing.F) {
	b := section(f)
	f.Add(b)
	for at := 11; at < len(b); at += len(b)/30 + 1 {
		bad := append([]byte(nil), b...)
		bad[at] ^= 0x15
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		for _, format := range d.byID {
			format.AppendText(nil, make([]byte, 64), nil)
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add(head + `"%d %s", REC->number, __print_flags(REC->big, "|", { 1, "one" })`)
	f.Add(head + `"%p ` + strings.Repeat("(", 300))
	if text, err := os.ReadFile("/sys/kernel/tracing/events/sched/sched_switch/format"); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		format, err := parseFormat("fuzz", text, binary.LittleEndian, 8)
		if err != nil {
			return
		}
		for _, size := range []int{0, 3, 40, 200} {
			format.AppendText(nil, make([]byte, size), nil)
		}
		_ = fmt.Sprint(format.PrintErr)
	})
}
