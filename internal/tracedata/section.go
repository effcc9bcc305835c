package tracedata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Data is what a recording contains about tracepoints.
type Data struct {
	Version  string // of trace.dat: "0.5", "0.6"
	Order    binary.ByteOrder
	LongSize int               // bytes of a long
	Strings  map[uint64]string // strings of trace_printk and the like, by their address in the kernel
	Bad      []error           // errors of formats that cannot be read

	byID map[uint64]*Format
}

var magic = []byte("\x17\x08\x44tracing")

// Parse parses the feature TRACING_DATA. Formats that cannot be read are left out; their errors are in Bad. With an error, it returns the
// data before the error, or nil if there is none.
func Parse(b []byte) (*Data, error) {
	r := &reader{b: b, all: len(b)}
	if !bytes.Equal(r.take(uint64(len(magic))), magic) {
		return nil, fmt.Errorf("tracing data: it begins with %q, not with %q", b[:min(len(b), len(magic))], magic)
	}
	d := &Data{Order: binary.LittleEndian, Strings: map[uint64]string{}, byID: map[uint64]*Format{}}
	d.Version = r.text()
	head := r.take(2)
	if r.err == nil && head[0] != 0 {
		d.Order = binary.BigEndian
	}
	r.order = d.Order
	if r.err == nil {
		d.LongSize = int(head[1])
	}
	r.u32() // page size
	r.section("header_page")
	r.section("header_event")
	for range r.count(8) {
		d.add("ftrace", r.take(r.u64()))
	}
	for range r.count(5) {
		system := r.text()
		for range r.count(8) {
			d.add(system, r.take(r.u64()))
		}
	}
	r.take(uint64(r.u32())) // kallsyms
	d.addStrings(r.take(uint64(r.u32())))
	if d.Version >= "0.6" {
		r.take(r.u64()) // saved_cmdlines: names of threads
	}
	if r.err != nil {
		return d, fmt.Errorf("tracing data: %w", r.err)
	}
	return d, nil
}

// Format returns the format of the tracepoint with an ID, which is the Config of its perf_event_attr. It returns nil if there is none, or
// if d is nil.
func (d *Data) Format(id uint64) *Format {
	if d == nil {
		return nil
	}
	return d.byID[id]
}

func (d *Data) add(system string, text []byte) {
	if len(text) == 0 {
		return
	}
	f, err := parseFormat(system, string(text), d.Order, d.LongSize)
	if err != nil {
		d.Bad = append(d.Bad, err)
		return
	}
	f.data = d
	d.byID[f.ID] = f
}

// addStrings reads tracefs' printk_formats: 0xffff… : "text".
func (d *Data) addStrings(b []byte) {
	for line := range strings.Lines(string(b)) {
		addr, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " : ")
		n, err := strconv.ParseUint(strings.TrimPrefix(addr, "0x"), 16, 64)
		if !ok || err != nil {
			continue
		}
		d.Strings[n] = unescape(strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`))
	}
}

// reader reads values from the front of b. It keeps the first error; all values after it are 0.
type reader struct {
	b     []byte
	all   int
	order binary.ByteOrder
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d of %d: %s", r.all-len(r.b), r.all, fmt.Sprintf(format, args...))
	}
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)) {
		r.fail("%d bytes are missing", n-uint64(len(r.b)))
	}
	if r.err != nil {
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

// count reads a number of parts with at least size bytes each.
func (r *reader) count(size int) uint32 {
	n := r.u32()
	if uint64(n)*uint64(size) > uint64(len(r.b)) {
		r.fail("there is no room for %d parts", n)
		return 0
	}
	return n
}

func (r *reader) text() string {
	end := bytes.IndexByte(r.b, 0)
	if r.err != nil || end < 0 {
		r.fail("a string does not end")
		return ""
	}
	s := string(r.b[:end])
	r.b = r.b[end+1:]
	return s
}

func (r *reader) section(name string) {
	if got := r.text(); r.err == nil && got != name {
		r.fail("%q stands where %s should", got, name)
	}
	r.take(r.u64())
}
