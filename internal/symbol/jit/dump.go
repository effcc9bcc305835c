package jit

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Dump is a parsed jit-PID.dump.
type Dump struct {
	PID     uint32
	Machine elf.Machine
	Created uint64 // in the dump's clock
	Codes   []Code
	Loads   []Load // sorted by time

	// ArchTimestamps reports whether times are values of a processor counter (TSC) instead of CLOCK_MONOTONIC.
	ArchTimestamps bool
}

// Load is an address range that code was loaded at or moved to. It replaces the code that was there.
type Load struct {
	Time       uint64 // in the dump's clock
	Start, End uint64
	Code       int // index in Codes
}

// Code is a piece of code that the compiler loaded.
type Code struct {
	Name    string
	PID     uint32
	TID     uint32 // the thread that generated it
	Index   uint64 // assigned by the compiler
	Address uint64 // where it was first loaded
	Bytes   []byte
	Lines   []Line // sorted by address
}

// Line is a source line whose code begins at Address, before any move of the code.
type Line struct {
	Address       uint64
	File          string
	Number        uint32
	Discriminator uint32
}

// These are the kinds of records and the sizes of the file header and of a record's header, in bytes.
const (
	codeLoad      = 0
	codeMove      = 1
	codeDebugInfo = 2
	codeClose     = 3
	codeUnwinding = 4

	headerSize = 40
	prefixSize = 16 // of a record: kind, size and time
)

// magic is "JiTD" in the byte order of the file.
const magic = 0x4A695444

// ParseDump reads a jit-PID.dump. The Dump refers to data. Files of processes that still run or were killed end anywhere, so an error
// reports the offset of the broken record, and the Dump holds the records before it. The Dump is nil if the header is broken.
func ParseDump(data []byte) (*Dump, error) {
	var order binary.ByteOrder = binary.LittleEndian
	if len(data) < headerSize {
		return nil, fmt.Errorf("jitdump: it has %d bytes, less than its header of %d", len(data), headerSize)
	}
	if order.Uint32(data) != magic {
		order = binary.BigEndian
	}
	if order.Uint32(data) != magic {
		return nil, fmt.Errorf("jitdump: it begins with %q, not with the magic number JiTD", data[:4])
	}
	if version := order.Uint32(data[4:]); version != 1 {
		return nil, fmt.Errorf("jitdump: its version is %d, not 1", version)
	}
	size := order.Uint32(data[8:])
	if size < headerSize || int64(size) > int64(len(data)) {
		return nil, fmt.Errorf("jitdump: its header has %d bytes, and the file %d", size, len(data))
	}
	p := parser{order: order, at: make(map[uint64]int), d: &Dump{
		Machine: elf.Machine(order.Uint32(data[12:])), PID: order.Uint32(data[20:]),
		Created: order.Uint64(data[24:]), ArchTimestamps: order.Uint64(data[32:])&1 == 1,
	}}
	err := p.records(data, int(size))
	slices.SortStableFunc(p.d.Loads, func(a, b Load) int { return cmp.Compare(a.Time, b.Time) })
	return p.d, err
}

type parser struct {
	order binary.ByteOrder
	d     *Dump
	at    map[uint64]int    // index in Codes of the code at an address
	lines map[uint64][]Line // lines of the code that will be loaded at an address

	lineCount int // in all records
}

// These limit what is read from a dump: the owner of the process controls the file, and each function becomes a mapping.
const (
	maxCodes = 1 << 17
	maxLines = 4 << 20
)

func (p *parser) records(data []byte, offset int) error {
	for offset < len(data) {
		fault := func(format string, args ...any) error {
			return fmt.Errorf("jitdump: the record at byte %d: %w", offset, fmt.Errorf(format, args...))
		}
		rest := data[offset:]
		if len(rest) < prefixSize {
			return fault("%d bytes are left, too few for a record", len(rest))
		}
		kind, size, at := p.order.Uint32(rest), p.order.Uint32(rest[4:]), p.order.Uint64(rest[8:])
		if size < prefixSize || int64(size) > int64(len(rest)) {
			return fault("it has %d bytes, of which there are %d", size, len(rest))
		}
		r := reader{rest[prefixSize:size], p.order, false}
		switch kind {
		case codeLoad:
			p.load(&r, at)
		case codeMove:
			p.move(&r, at)
		case codeDebugInfo:
			p.debugInfo(&r)
		case codeClose:
			return nil
		}
		if r.short {
			return fault("its %d bytes are too few for its kind (%d)", size, kind)
		}
		if len(p.d.Loads) > maxCodes || p.lineCount > maxLines {
			return fault("up to here are more than %d functions, or %d lines of source code", maxCodes, maxLines)
		}
		offset += int(size)
	}
	return nil
}

// load reads struct jr_code_load.
func (p *parser) load(r *reader, at uint64) {
	c := Code{PID: r.u32(), TID: r.u32()}
	r.u64() // vma, where it will run: the same as code_addr
	c.Address = r.u64()
	size := r.u64()
	c.Index, c.Name, c.Bytes = r.u64(), r.text(), r.bytes(size)
	if r.short {
		return
	}
	c.Lines = p.lines[c.Address]
	delete(p.lines, c.Address)
	p.put(c.Address, size, at, len(p.d.Codes))
	p.d.Codes = append(p.d.Codes, c)
}

func (p *parser) put(address, size, at uint64, code int) {
	p.at[address] = code
	p.d.Loads = append(p.d.Loads, Load{Time: at, Start: address, End: address + size, Code: code})
}

// move reads struct jr_code_move.
func (p *parser) move(r *reader, at uint64) {
	r.bytes(16) // PID, TID, vma
	from, to, size := r.u64(), r.u64(), r.u64()
	n, known := p.at[from]
	if r.u64(); r.short || !known {
		return
	}
	delete(p.at, from)
	p.put(to, size, at, n)
}

// debugInfo reads struct jr_code_debug_info. The record precedes the code that it describes.
func (p *parser) debugInfo(r *reader) {
	const smallest = 17 // address, line, discriminator, and an empty string with its terminator
	address, n := r.u64(), r.u64()
	if n > uint64(len(r.data)/smallest)+1 {
		r.short = true
		return
	}
	if p.lineCount += int(n); p.lineCount > maxLines {
		return
	}
	lines := make([]Line, 0, n)
	for range n {
		l := Line{Address: r.u64(), Number: r.u32(), Discriminator: r.u32(), File: r.text()}
		if l.File == "\xff" && len(lines) > 0 { // the same file as the previous line
			l.File = lines[len(lines)-1].File
		}
		lines = append(lines, l)
	}
	if r.short {
		return
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].Address < lines[j].Address })
	if p.lines == nil {
		p.lines = make(map[uint64][]Line)
	}
	p.lines[address] = lines
}

// Line returns the source line at an offset in the code, or nil if it is unknown.
func (c *Code) Line(offset uint64) *Line {
	address := c.Address + offset
	n := sort.Search(len(c.Lines), func(n int) bool { return c.Lines[n].Address > address })
	if n == 0 {
		return nil
	}
	return &c.Lines[n-1]
}

// reader reads a record. Beyond its end it returns zeros and sets short.
type reader struct {
	data  []byte
	order binary.ByteOrder
	short bool
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.data, r.short = nil, true
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

// text reads a string that ends with a zero byte.
func (r *reader) text() string {
	s, _, found := bytes.Cut(r.data, []byte{0})
	if !found {
		r.data, r.short = nil, true
		return ""
	}
	r.data = r.data[len(s)+1:]
	return string(s)
}
