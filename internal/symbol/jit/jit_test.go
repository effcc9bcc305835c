package jit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMap(t *testing.T) {
	text := "7f0000001000 100 LazyCompile:*f /srv/a file.js:10\n" +
		"0x7f0000002000 0x20 with prefix\r\n" +
		"\n" +
		"7f0000001080 10 older, within\n" +
		"7f0000001000 100 newer\n" +
		"7f0000003000 10 old\n" +
		"7f0000003008 10 over its end"
	m, err := ParseMap([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]string{
		0x7f0000001000: "newer", 0x7f0000001080: "newer", 0x7f00000010ff: "newer", 0x7f0000001100: "", 0x7f000000201f: "with prefix",
		0x7f0000003007: "old", 0x7f0000003008: "over its end", 0x7f0000003017: "over its end", 0x7f0000003018: "", 0: "",
	} {
		got := ""
		if f, ok := m.Find(address); ok {
			got = f.Name
		}
		if got != want {
			t.Errorf("%#x: %q, not %q", address, got, want)
		}
	}
}

func TestBadMap(t *testing.T) {
	m, err := ParseMap([]byte("x 1 a\n1000 10 good\n1000\n1000 10\n1000 10 \n1000 x a\n"))
	if err == nil || err.Error() != `5 lines cannot be read, the first of them line 1: "x 1 a" is not a start, a size and a name` {
		t.Errorf("error %v", err)
	}
	if f, ok := m.Find(0x1000); !ok || f != (Function{"good", 0x1000, 0x1010}) {
		t.Errorf("found %+v", f)
	}
}

func TestLimits(t *testing.T) {
	m, err := ParseMap([]byte(strings.Repeat("1000 10 a\n", maxFunctions) + "2000 10 b\n"))
	_, first := m.Find(0x1000)
	_, last := m.Find(0x2000)
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 functions") || !first || last {
		t.Errorf("a map of too many functions: error %v", err)
	}
	d := maker{order: binary.LittleEndian}
	d.b = d.values(uint32(magic), uint32(1), uint32(headerSize), uint32(elf.EM_X86_64), uint32(0), uint32(5), uint64(99), uint64(0))
	for n := range uint64(maxCodes + 10) {
		d.load(1, 0x1000+n, "a", "", n)
	}
	if dump, err := ParseDump(d.b); err == nil || !strings.Contains(err.Error(), "more than 131072 functions") || len(dump.Codes) != maxCodes+1 {
		t.Errorf("a dump of too many functions: %d, error %v", len(dump.Codes), err)
	}
}

// dumpOrder is a byte order that reads and appends.
type dumpOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// maker builds a jitdump.
type maker struct {
	b     []byte
	order dumpOrder
}

func (m *maker) values(all ...any) []byte {
	var b []byte
	for _, v := range all {
		switch v := v.(type) {
		case uint32:
			b = m.order.AppendUint32(b, v)
		case uint64:
			b = m.order.AppendUint64(b, v)
		case string:
			b = append(append(b, v...), 0)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

func (m *maker) record(kind uint32, at uint64, all ...any) {
	body := m.values(all...)
	m.b = append(append(m.b, m.values(kind, uint32(len(body)+prefixSize), at)...), body...)
}

func (m *maker) load(at, address uint64, name, code string, index uint64) {
	m.record(codeLoad, at, uint32(5), uint32(6), address, address, uint64(len(code)), index, name, []byte(code))
}

// dump returns a jitdump with code that is loaded, moved, and replaced.
func dump(order dumpOrder) []byte {
	m := maker{order: order}
	m.b = m.values(uint32(magic), uint32(1), uint32(headerSize), uint32(elf.EM_X86_64), uint32(0), uint32(5), uint64(99), uint64(0))
	m.load(100, 0x1000, "first", "0123456789", 1)
	m.record(codeDebugInfo, 150, uint64(0x2000), uint64(3),
		uint64(0x2004), uint32(12), uint32(1), "a.js", uint64(0x2000), uint32(10), uint32(0), "a.js", uint64(0x2008), uint32(13), uint32(0), "\xff")
	m.load(200, 0x2000, "second", "abcdefghijkl", 2)
	m.record(codeUnwinding, 210, uint64(0), uint64(0), uint64(0))
	m.record(codeMove, 300, uint32(5), uint32(6), uint64(0x3000), uint64(0x2000), uint64(0x3000), uint64(12), uint64(2))
	m.record(codeMove, 310, uint32(5), uint32(6), uint64(0x3000), uint64(0x9000), uint64(0x9100), uint64(12), uint64(7)) // moves unknown code
	m.load(400, 0x1000, "first", "0123456789", 3)
	m.record(77, 410, "of the future")
	m.record(codeClose, 500)
	return append(m.b, "what comes after the end"...)
}

func TestDump(t *testing.T) {
	for _, order := range []dumpOrder{binary.LittleEndian, binary.BigEndian} {
		d, err := ParseDump(dump(order))
		if err != nil {
			t.Fatal(err)
		}
		if d.PID != 5 || d.Machine != elf.EM_X86_64 || d.Created != 99 || d.ArchTimestamps || len(d.Codes) != 3 {
			t.Errorf("%v: %+v", order, d)
		}
		want := Code{Name: "second", PID: 5, TID: 6, Index: 2, Address: 0x2000, Bytes: []byte("abcdefghijkl"), Lines: []Line{
			{0x2000, "a.js", 10, 0}, {0x2004, "a.js", 12, 1}, {0x2008, "a.js", 13, 0}}}
		if diff := cmp.Diff(want, d.Codes[1]); diff != "" {
			t.Errorf("%v: -want +got:\n%s", order, diff)
		}
		for _, test := range []struct {
			time, address uint64
			want          string
		}{
			{99, 0x1000, ""}, {100, 0x1000, "first#1+0"}, {399, 0x1009, "first#1+9"}, {400, 0x1009, "first#3+9"}, {math.MaxUint64 - 1, 0x100a, ""},
			{199, 0x2000, ""}, {200, 0x2000, "second#2+0 a.js:10"}, {299, 0x2005, "second#2+5 a.js:12"},
			{300, 0x300b, "second#2+11 a.js:13"}, {310, 0x9100, ""},
		} {
			got := ""
			if c, offset := find(d, test.time, test.address); c != nil {
				got = fmt.Sprintf("%s#%d+%d", c.Name, c.Index, offset)
				if l := c.Line(offset); l != nil {
					got += fmt.Sprintf(" %s:%d", l.File, l.Number)
				}
			}
			if got != test.want {
				t.Errorf("%v: %#x at %d: %q, not %q", order, test.address, test.time, got, test.want)
			}
		}
	}
}

func TestBadDump(t *testing.T) {
	good := dump(binary.LittleEndian)
	put := func(at int, v uint32) []byte {
		b := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for _, test := range []struct {
		name  string
		data  []byte
		want  string
		codes int // that are read all the same
	}{
		{"empty", nil, "less than its header", 0},
		{"no dump", []byte(strings.Repeat("x", 100)), `begins with "xxxx"`, 0},
		{"version", put(4, 2), "its version is 2", 0},
		{"header", put(8, 1<<31), "its header has 2147483648 bytes", 0},
		{"record", put(headerSize+4, 1<<31), "at byte 40: it has 2147483648 bytes", 0},
		{"record without end", put(headerSize+4, 0), "at byte 40: it has 0 bytes", 0},
		{"short record", put(headerSize+4, 20), "too few for its kind (0)", 0},
		{"long code", put(headerSize+prefixSize+24, 1<<31), "too few for its kind", 0},
		{"many lines", put(headerSize+prefixSize+40+6+10+prefixSize+8, 1<<31), "too few for its kind (2)", 1},
		{"cut", good[:headerSize+80], "are left, too few for a record", 1},
	} {
		d, err := ParseDump(test.data)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, not %q", test.name, err, test.want)
		}
		if d != nil && len(d.Codes) != test.codes {
			t.Errorf("%s: %d codes, not %d", test.name, len(d.Codes), test.codes)
		}
	}
}

func FuzzDump(f *testing.F) {
	f.Add(dump(binary.LittleEndian), uint64(300), uint64(0x3000))
	f.Add(dump(binary.BigEndian), uint64(100), uint64(0x1000))
	f.Fuzz(func(t *testing.T, data []byte, time, address uint64) {
		d, err := ParseDump(data)
		if d == nil {
			if err == nil {
				t.Error("neither a dump nor an error")
			}
			return
		}
		if c, offset := find(d, time, address); c != nil {
			c.Line(offset)
		}
	})
}

func FuzzMap(f *testing.F) {
	f.Add("1000 10 a\n1008 4 b c\n", uint64(0x1009))
	f.Add("1008 4 b\n1000 10 a\n1000 2 c\n1004 0 d\nff0 30 e\n1001 ffffffffffffffff f\n", uint64(0x1001))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		m, _ := ParseMap([]byte(text))
		f, ok := m.Find(address)
		if ok && (address < f.Start || address >= f.End) {
			t.Errorf("%#x is not in %+v", address, f)
		}
		if want := slowFind(text, address); ok != (want != "") || ok && f.Name != want {
			t.Errorf("%#x is in %q, not in %q", address, f.Name, want)
		}
	})
}

// slowFind returns the name of the function at an address. It adds one line after the other, in the order of the compiler.
func slowFind(text string, address uint64) (name string) {
	there := map[uint64]mapLine{}
	at := 0
	for line := range strings.SplitSeq(text, "\n") {
		l, ok := parseLine([]byte(text), at, at+len(line))
		at += len(line) + 1
		if !ok {
			continue
		}
		maps.DeleteFunc(there, func(start uint64, _ mapLine) bool { return start == l.start || start >= l.start && start < l.end })
		if l.end > l.start {
			there[l.start] = l
		}
	}
	last := mapLine{}
	for start, l := range there {
		if start <= address && (start > last.start || last.size == 0) {
			last = l
		}
	}
	if address >= last.end {
		return ""
	}
	return text[last.name:][:last.size]
}

// TestMapSize has one-byte functions that start two bytes apart, in ascending and descending order. No compiler makes such a map.
func TestMapSize(t *testing.T) {
	const functions, most = 100_000, 40 // bytes for each
	var up, down strings.Builder
	for n := range functions {
		fmt.Fprintf(&up, "%x 1 a\n", 0x1000+2*n)
		fmt.Fprintf(&down, "%x 1 a\n", 0x1000+2*(functions-n))
	}
	for name, text := range map[string][]byte{"up": []byte(up.String()), "down": []byte(down.String()), "not a line": bytes.Repeat([]byte("g\n"), functions)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := ParseMap(text)
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / functions; n > most {
			t.Errorf("%s: a function takes %d bytes, more than %d", name, n, most)
		}
		if name == "not a line" {
			continue
		}
		if f, ok := m.Find(0x1010); err != nil || len(m.lines) != functions || !ok || f.Start != 0x1010 {
			t.Errorf("%s: error %v, %d functions, found %+v", name, err, len(m.lines), f)
		}
	}
}

// find returns the code at an address, at a time in the dump's clock, and the offset in that code; nil if there was none.
func find(d *Dump, time, address uint64) (c *Code, offset uint64) {
	for _, l := range d.Loads {
		if l.Time <= time && l.Start <= address && address < l.End {
			c, offset = &d.Codes[l.Code], address-l.Start
		}
	}
	return c, offset
}
