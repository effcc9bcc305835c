// Package dwarf finds the functions and source lines of addresses in the DWARF debugging information, versions 2 to 5,
// of one file. It reads a compilation unit when an address in it is first asked for. debug/dwarf of the standard library
// reads the abbreviations of all units first, keeps them, and believes counts of hostile files; it serves types well.
//
// The format is that of the DWARF standard (https://dwarfstd.org), with the GNU forms for supplementary files.
package dwarf

import (
	"sync"

	"github.com/bperf/bperf/internal/symbol"
)

// Sections are a file's debug sections. What the file does not have is empty.
type Sections struct {
	Abbrev, Addr, Aranges, Info, Line, LineStr, Ranges, RngLists, Str, StrOffsets Section

	BigEndian bool

	// Supplement has what several files share (.gnu_debugaltlink), or is nil.
	Supplement *Sections
}

// Data is the debugging information of a file. Goroutines may share it.
type Data struct {
	s Sections

	mu      sync.Mutex
	aranges *index   // what .debug_aranges says; nil before the first use
	whole   *index   // of all units; nil until it is needed
	headers []uint64 // the offsets of the units up to walked, in .debug_info
	walked  uint64
	known   map[uint64]*unit // by offset
	parsed  map[*unit]*code
	cost    int // of what is in parsed, in bytes

	steps int // what is left of the abbreviations that may be passed over to find those of units

	tables map[uint64]abbrevs
	sup    *Data
}

// maxCost bounds the memory of units that are kept, in bytes; above it all are forgotten and read again when needed.
const maxCost = 128 << 20

// maxSteps bounds the time that hostile files take to index: a unit has its own abbreviation first, or nearly so.
const maxSteps = 1 << 24

// New makes the Data of sections. It reads nothing yet.
func New(s Sections) *Data {
	d := &Data{s: s}
	if s.Supplement != nil {
		d.sup = &Data{s: *s.Supplement}
		d.sup.s.Supplement = nil
	}
	return d
}

// Frames appends to frames the functions at addr, the innermost first, and the places in the source. Modules and
// starts of symbols are left to the caller. It appends nothing where no unit has addr; where a unit has lines but no
// function for it, the one frame has no name.
func (d *Data) Frames(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return d.frames(addr, frames, true)
}

// Functions is like Frames, but without the places in the source: it reads no line tables.
func (d *Data) Functions(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return d.frames(addr, frames, false)
}

func (d *Data) frames(addr uint64, frames []symbol.Frame, places bool) []symbol.Frame {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.codeAt(addr)
	if c == nil {
		return frames
	}
	var at symbol.Frame
	if places {
		at.File, at.Line, at.Column = d.linesOf(c).find(addr)
	}
	innermost := c.scopeAt(addr)
	if innermost < 0 {
		if at.File == "" {
			return frames
		}
		return append(frames, at)
	}
	for i, depth := innermost, 0; i >= 0 && depth < maxDepth; depth++ {
		s := &c.scopes[i]
		f := at
		f.Function, f.StartLine = d.function(c, s.die)
		f.Inlined = s.parent >= 0
		frames = append(frames, f)
		if places {
			at = symbol.Frame{File: c.lines.file(s.callFile), Line: int(s.callLine), Column: int(s.callColumn)}
		}
		i = s.parent
	}
	return frames
}

// Lines returns the rows of the line table for addresses from start up to end, in their order; the first is the one
// that start lies in, from start on.
func (d *Data) Lines(start, end uint64) []Line {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []Line
	for addr := start; addr < end; {
		c := d.codeAt(addr)
		if c == nil {
			return lines
		}
		rows, from, stop := d.linesOf(c).rowsFrom(addr)
		for _, r := range rows {
			at := from + uint64(r.addr)
			if at >= end {
				break
			}
			lines = append(lines, Line{max(at, start), c.lines.file(r.file), int(r.line), int(r.column), r.statement})
		}
		if stop <= addr {
			return lines
		}
		addr = stop
	}
	return lines
}

// Line is a row of a line table: the code from Addr up to the next row's belongs to it.
type Line struct {
	Addr      uint64
	File      string
	Line      int // 0 where the compiler names none
	Column    int // 0 where the compiler names none
	Statement bool
}

// codeAt returns what the unit has that addr is in, or nil.
func (d *Data) codeAt(addr uint64) *code {
	u := d.unitAt(addr)
	if u == nil {
		return nil
	}
	if c := d.parsed[u]; c != nil {
		return c
	}
	c := d.parse(u)
	if d.parsed == nil || d.cost > maxCost {
		d.parsed, d.cost = make(map[*unit]*code), 0
	}
	d.parsed[u] = c
	d.cost += c.size()
	return c
}
