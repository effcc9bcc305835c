// Package dwarf finds the functions and source lines of addresses in the DWARF debugging information of a file, versions 2 to 5. It reads a
// compilation unit when an address in it is first looked up. In contrast, debug/dwarf of the standard library reads the abbreviations of
// all units first, keeps them, and trusts the counts in hostile files; but it reads types well.
//
// The format is that of the DWARF standard (https://dwarfstd.org), with the GNU forms for supplementary files.
package dwarf

import (
	"sync"

	"github.com/bperf/bperf/internal/symbol"
)

// Sections holds the debug sections of a file. Sections that the file lacks are empty.
type Sections struct {
	Abbrev, Addr, Aranges, Info, Line, LineStr, Ranges, RngLists, Str, StrOffsets Section

	BigEndian bool
	Mangled   bool // keep the linker's names of functions

	// Supplement holds data that several files share (.gnu_debugaltlink), or is nil.
	Supplement *Sections
}

// Data is the debugging information of a file. It is safe for concurrent use.
type Data struct {
	mu     sync.Mutex
	reader reader
	parsed map[*unit]*code
	cost   int // size of parsed, in bytes
}

// maxCost limits the memory for parsed units, in bytes. Beyond it, all parsed units are dropped and parsed again when needed.
const maxCost = 128 << 20

// New returns the Data of some sections. It reads nothing yet.
func New(s Sections) *Data {
	d := &Data{reader: reader{s: s}}
	if s.Supplement != nil {
		d.reader.sup = &reader{s: *s.Supplement}
	}
	return d
}

// Frames appends the functions at addr to frames, the innermost first, with their source lines. The caller sets Module and Start. Frames
// appends nothing if no unit contains addr. If a unit has lines but no function for addr, Frames appends one frame without a name.
func (d *Data) Frames(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return d.frames(addr, frames, true)
}

// Functions is like Frames, but leaves out source lines and reads no line tables.
func (d *Data) Functions(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return d.frames(addr, frames, false)
}

func (d *Data) frames(addr uint64, frames []symbol.Frame, lines bool) []symbol.Frame {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.codeAt(addr)
	if c == nil {
		return frames
	}
	var at symbol.Frame
	if lines {
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
		if lines {
			at = symbol.Frame{File: c.lines.file(s.callFile), Line: int(s.callLine), Column: int(s.callColumn)}
		}
		i = s.parent
	}
	return frames
}

// Lines returns the rows of the line table for the addresses from start up to end, sorted by address. The first is the row that contains
// start; its Addr is start.
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

// Line is a row of a line table. It covers the code from Addr up to the next row.
type Line struct {
	Addr      uint64
	File      string
	Line      int // 0 if the compiler names none
	Column    int // 0 if the compiler names none
	Statement bool
}

// codeAt returns the parsed unit that contains addr, or nil.
func (d *Data) codeAt(addr uint64) *code {
	u := d.reader.unitAt(addr)
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
