// Package pclntab reads the function table of Go programs (pclntab), in which the Go runtime finds functions, lines and inlined calls.
// Stripped programs have it too. Unlike debug/gosym of the standard library, it reads inlined calls and does not allocate an object per
// function.
//
// The format is that of Go 1.18 and later: cmd/link/internal/ld/pcln.go, runtime/symtab.go and runtime/symtabinl.go.
package pclntab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/bperf/bperf/internal/symbol"
)

// Table is the function table of a Go program. It is safe for concurrent use.
type Table struct {
	big      bool   // big-endian
	text     uint64 // the address that function offsets are relative to
	quantum  uint64 // the size of the smallest instruction, in bytes
	release  release
	nfunc    int
	coarse   []uint32 // the start of every coarseStep-th function in functab: a search there touches few pages of the file
	names    []byte
	units    []byte // the file numbers of compilation units
	files    []byte
	values   []byte // encoded values by program counter
	funcs    []byte // functab, then the functions
	funcdata []byte // go:func.*, which holds the trees of inlined calls

	mu    sync.Mutex
	texts map[textKey]string // names of functions and files, which many frames share
}

// textKey identifies a string by its offset.
type textKey struct {
	inFiles bool // in files, not in names
	off     uint32
}

// release holds the differences between versions of the format.
type release struct {
	inlinedSize, inlinedName, inlinedParent int  // the size of an inlinedCall and the offsets of its fields
	startLines                              bool // functions have a startLine field
}

// These are the numbers that tables of Go 1.18 and of Go 1.20 and later start with: Go118PCLnTabMagic and Go120PCLnTabMagic of internal/abi.
const (
	Go118Magic = 0xfffffff0
	Go120Magic = 0xfffffff1
)

var releases = map[uint32]release{
	Go118Magic: {20, 12, 16, false},
	Go120Magic: {16, 4, 8, true},
}

// errVersion reports a table in an unknown format.
var errVersion = errors.New("not the function table of Go 1.18 or later")

// These are the words of the header after its first 8 bytes: pcHeader of runtime/symtab.go. headerWords is their number.
const (
	headerNfunc          = 0
	headerFuncnameOffset = 3
	headerCuOffset       = 4
	headerFiletabOffset  = 5
	headerPctabOffset    = 6
	headerPclnOffset     = 7
	headerWords          = 8
)

// These are the words of a function: _func of runtime/runtime2.go.
const (
	funcNameOff   = 1
	funcPcfile    = 5
	funcPcln      = 6
	funcNpcdata   = 7
	funcCuOffset  = 8
	funcStartLine = 9 // since Go 1.20
)

const (
	functabEntry     = 8
	funcSize         = 40 // without startLine
	inlinedStartLine = 12 // the offset of startLine in an inlinedCall, since Go 1.20
	noOffset         = 1<<32 - 1

	pcdataInlTreeIndex = 2 // internal/abi: PCDATA_InlTreeIndex
	funcdataInlTree    = 3 // internal/abi: FUNCDATA_InlTree
	maxInlined         = 256
)

// New returns the table in the contents of .gopclntab. Functions are relative to text, which is runtime.text or the start of .text.
// funcdata is the contents of the file from go:func.* on; without it there are no inlined calls.
func New(table []byte, order binary.ByteOrder, text uint64, funcdata []byte) (*Table, error) {
	if len(table) < 8 {
		return nil, errVersion
	}
	r, ok := releases[order.Uint32(table)]
	pointer := int(table[7])
	quantum := table[6]
	if !ok || table[4] != 0 || table[5] != 0 || pointer != 4 && pointer != 8 || quantum != 1 && quantum != 2 && quantum != 4 {
		return nil, errVersion
	}
	if len(table) < 8+headerWords*pointer {
		return nil, fmt.Errorf("the function table ends in its header, after %d bytes", len(table))
	}
	word := func(n int) uint64 {
		if pointer == 4 {
			return uint64(order.Uint32(table[8+4*n:]))
		}
		return order.Uint64(table[8+8*n:])
	}
	part := func(n int) []byte {
		return table[min(word(n), uint64(len(table))):]
	}
	t := &Table{
		big: order == binary.BigEndian, text: text, quantum: uint64(quantum), release: r, funcdata: funcdata,
		names: part(headerFuncnameOffset), units: part(headerCuOffset), files: part(headerFiletabOffset), values: part(headerPctabOffset),
		funcs: part(headerPclnOffset),
	}
	nfunc := word(headerNfunc)
	if most := uint64(len(t.funcs)) / functabEntry; nfunc > min(most, symbol.MaxSymbols) {
		return nil, fmt.Errorf("the function table claims %d functions, and has room for %d", nfunc, min(most, symbol.MaxSymbols))
	}
	t.nfunc = int(nfunc)
	for i := 0; i < t.nfunc; i += coarseStep {
		t.coarse = append(t.coarse, uint32(t.entryOff(i)))
	}
	return t, nil
}

const coarseStep = 64

// function is one function of the table.
type function struct {
	start, end uint64
	data       []byte
	name       string // set by find
}

// u32 reads a number. It avoids the interface binary.ByteOrder, calls of which took up to 14 % of the time of a report.
func (t *Table) u32(b []byte) uint32 {
	if t.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (t *Table) entryOff(i int) uint64 {
	return uint64(t.u32(t.funcs[i*functabEntry:]))
}

// function returns the i-th function. In a broken table its data may be nil.
func (t *Table) function(i int) function {
	f := function{start: t.text + t.entryOff(i)}
	if next := (i + 1) * functabEntry; next+4 <= len(t.funcs) {
		f.end = t.text + uint64(t.u32(t.funcs[next:]))
	}
	off := t.u32(t.funcs[i*functabEntry+4:])
	if data := t.funcs[min(uint64(off), uint64(len(t.funcs))):]; len(data) >= funcSize+4 {
		f.data = data
	}
	return f
}

// find returns the function that contains pc, and false if there is none.
func (t *Table) find(pc uint64) (function, bool) {
	if pc < t.text || t.nfunc == 0 {
		return function{}, false
	}
	off := pc - t.text
	from := coarseStep * (sort.Search(len(t.coarse), func(i int) bool { return uint64(t.coarse[i]) > off }) - 1)
	if from < 0 {
		return function{}, false
	}
	n := min(coarseStep, t.nfunc-from)
	f := t.function(from + sort.Search(n, func(i int) bool { return t.entryOff(from+i) > off }) - 1)
	if pc >= f.end || f.data == nil {
		return f, false
	}
	f.name = t.shared(t.names, textKey{off: t.field(f, funcNameOff)})
	return f, f.name != ""
}

// AddTo adds all functions to b. It fails if their names overlap too much (symbol.MaxNames).
func (t *Table) AddTo(b *symbol.Builder) error {
	size, most := 0, symbol.MaxNames(len(t.names))
	for i := range t.nfunc {
		if size += len(t.nameOf(t.function(i))); size > most {
			return errors.New("the names of the function table overlap")
		}
	}
	b.Grow(t.nfunc, size)
	for i := range t.nfunc {
		f := t.function(i)
		if name := t.nameOf(f); len(name) > 0 {
			b.Add(symbol.Symbol{Start: f.start, End: f.end, Binding: symbol.Global}, name)
		}
	}
	return nil
}

// Symbol returns the function that contains pc as AddTo adds it, and false if there is none.
func (t *Table) Symbol(pc uint64) (symbol.Symbol, bool) {
	f, ok := t.find(pc)
	if !ok {
		return symbol.Symbol{}, false
	}
	return symbol.Symbol{Name: f.name, Start: f.start, End: f.end, Binding: symbol.Global}, true
}

// nameOf returns the name of a function, as a part of the table. It is empty if the function is broken.
func (t *Table) nameOf(f function) []byte {
	if f.data == nil || f.end < f.start {
		return nil
	}
	return textAt(t.names, t.field(f, funcNameOff))
}

// Frames appends the functions at pc to frames, the innermost first. It appends nothing if pc is in no Go function: in C code or in a gap.
func (t *Table) Frames(pc uint64, frames []symbol.Frame) []symbol.Frame {
	return t.frames(pc, frames, true)
}

// Functions is like Frames, but leaves out files and lines.
func (t *Table) Functions(pc uint64, frames []symbol.Frame) []symbol.Frame {
	return t.frames(pc, frames, false)
}

func (t *Table) frames(pc uint64, frames []symbol.Frame, lines bool) []symbol.Frame {
	source := func(f function) (file string, line int) {
		if lines {
			file, line = t.line(f, pc)
		}
		return file, line
	}
	f, ok := t.find(pc)
	if !ok {
		return frames
	}
	for range maxInlined {
		call, ok := t.inlinedAt(f, pc)
		if !ok {
			break
		}
		file, line := source(f)
		frames = append(frames, symbol.Frame{
			Function: call.name, Start: f.start, File: file, Line: line, StartLine: call.startLine, Inlined: true,
		})
		pc = f.start + call.parent
	}
	file, line := source(f)
	return append(frames, symbol.Frame{
		Function: f.name, Start: f.start, File: file, Line: line, StartLine: t.startLine(f),
	})
}

// Line is the source line of the code from Addr up to the next Line.
type Line struct {
	Addr uint64
	File string
	Line int
}

// Lines returns the source lines of the addresses from start up to end, or up to the end of the function that contains start. They are
// sorted by address; the first is the line of start.
func (t *Table) Lines(start, end uint64) []Line {
	f, ok := t.find(start)
	if !ok {
		return nil
	}
	var lines []Line
	for pc := start; pc < min(end, f.end); {
		file, line := t.line(f, pc)
		if n := len(lines); n == 0 || lines[n-1].File != file || lines[n-1].Line != line {
			lines = append(lines, Line{pc, file, line})
		}
		_, endFile := t.value(f, t.field(f, funcPcfile), pc)
		_, endLine := t.value(f, t.field(f, funcPcln), pc)
		next := min(endFile, endLine)
		if next <= pc {
			break
		}
		pc = next
	}
	return lines
}

// field returns the n-th word of a function.
func (t *Table) field(f function, n int) uint32 {
	return t.u32(f.data[4*n:])
}

func (t *Table) startLine(f function) int {
	if !t.release.startLines {
		return 0
	}
	return int(t.field(f, funcStartLine))
}

func (t *Table) line(f function, pc uint64) (file string, line int) {
	number, _ := t.value(f, t.field(f, funcPcfile), pc)
	n, _ := t.value(f, t.field(f, funcPcln), pc)
	if number < 0 || n < 0 {
		return "", 0
	}
	at := 4 * (uint64(t.field(f, funcCuOffset)) + uint64(number))
	if at+4 > uint64(len(t.units)) {
		return "", int(n)
	}
	if off := t.u32(t.units[at:]); off != noOffset {
		file = t.shared(t.files, textKey{true, off})
	}
	return file, int(n)
}

// inlined is an inlined call.
type inlined struct {
	name      string
	parent    uint64 // an instruction of the caller, relative to the start of the function
	startLine int
}

func (t *Table) inlinedAt(f function, pc uint64) (call inlined, ok bool) {
	head := funcSize
	if t.release.startLines {
		head += 4
	}
	npcdata, nfuncdata := uint64(t.field(f, funcNpcdata)), uint64(f.data[head-1])
	if npcdata <= pcdataInlTreeIndex || nfuncdata <= funcdataInlTree {
		return call, false
	}
	tree := uint64(head) + 4*(npcdata+funcdataInlTree)
	if tree+4 > uint64(len(f.data)) {
		return call, false
	}
	treeOff := t.u32(f.data[tree:])
	if treeOff == noOffset {
		return call, false
	}
	index, _ := t.value(f, t.u32(f.data[head+4*pcdataInlTreeIndex:]), pc)
	if index < 0 {
		return call, false
	}
	at := uint64(treeOff) + uint64(index)*uint64(t.release.inlinedSize)
	if at+uint64(t.release.inlinedSize) > uint64(len(t.funcdata)) {
		return call, false
	}
	entry := t.funcdata[at:]
	call.name = t.shared(t.names, textKey{off: t.u32(entry[t.release.inlinedName:])})
	call.parent = uint64(t.u32(entry[t.release.inlinedParent:]))
	if t.release.startLines {
		call.startLine = int(t.u32(entry[inlinedStartLine:]))
	}
	return call, call.name != "" && f.start+call.parent < f.end
}

// value returns the value for pc in the table at off of values, or -1, and the address where it ends.
func (t *Table) value(f function, off uint32, pc uint64) (value int32, end uint64) {
	if off == 0 || uint64(off) >= uint64(len(t.values)) {
		return -1, f.end
	}
	value = -1
	at := f.start
	for p, first := t.values[off:], true; ; first = false {
		var delta, step uint64
		if len(p) >= 2 && p[0]|p[1] < 0x80 { // one-byte numbers, the usual case
			delta, step, p = uint64(p[0]), uint64(p[1]), p[2:]
		} else {
			var n, m int
			delta, n = binary.Uvarint(p)
			step, m = binary.Uvarint(p[max(n, 0):])
			if n <= 0 || m <= 0 {
				return -1, f.end
			}
			p = p[n+m:]
		}
		if delta == 0 && !first {
			return -1, f.end
		}
		value += int32(uint32(delta)>>1) ^ -int32(delta&1)
		at += step * t.quantum
		if pc < at {
			return value, at
		}
		if at >= f.end {
			return -1, f.end
		}
	}
}

// maxName bounds the length of names, in bytes.
const maxName = 16 << 10

// textAt returns the string at off without its terminating zero byte, or nothing if it does not end.
func textAt(names []byte, off uint32) []byte {
	b := names[min(uint64(off), uint64(len(names))):]
	b = b[:min(len(b), maxName)]
	return b[:max(0, bytes.IndexByte(b, 0))]
}

func (t *Table) shared(names []byte, key textKey) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, ok := t.texts[key]
	if !ok {
		if t.texts == nil {
			t.texts = make(map[textKey]string)
		}
		text = string(textAt(names, key.off))
		t.texts[key] = text
	}
	return text
}
