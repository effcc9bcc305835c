package object

import (
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/dwarf"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// Frames appends the functions at an address to frames, the innermost first, with their source lines if known. It appends nothing if
// nothing is known. For the caller of a function, pass the return address minus one.
func (f *File) Frames(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return f.frames(addr, frames, (*pclntab.Table).Frames, (*dwarf.Data).Frames)
}

// Functions is like Frames, but leaves out source lines, which saves time and memory.
func (f *File) Functions(addr uint64, frames []symbol.Frame) []symbol.Frame {
	return f.frames(addr, frames, (*pclntab.Table).Functions, (*dwarf.Data).Functions)
}

func (f *File) frames(addr uint64, frames []symbol.Frame, ofGo func(*pclntab.Table, uint64, []symbol.Frame) []symbol.Frame,
	ofDWARF func(*dwarf.Data, uint64, []symbol.Frame) []symbol.Frame) []symbol.Frame {
	gotab := f.goTable()
	s, named := f.Symbol(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetNow()
	before := len(frames)
	_ = guard(func() error { // what cannot be read leaves the symbol
		if gotab != nil {
			frames = ofGo(gotab, addr, frames)
		}
		if len(frames) == before {
			frames = ofDWARF(f.dwarf(), addr, frames)
		}
		return nil
	})
	if named && len(frames) == before {
		frames = append(frames, symbol.Frame{})
	}
	for i := range frames[before:] {
		frame := &frames[before+i]
		frame.Module = f.path
		if named {
			frame.Start = s.Start
		}
	}
	if last := len(frames) - 1; last >= before && named {
		frames[last].Function = f.demangled(s.Name)
	}
	return frames
}

// pace decides when pages of a file leave memory. Each lookup touches pages in several parts of the file, and the kernel reads nearby pages,
// too. The more lookups, the more of them touch the same pages.
type pace struct {
	lookups int // since pages last left memory
	doubled int // times that the number of lookups until then was doubled
}

// Numbers of lookups until pages leave memory: the first one, and how many times it is doubled.
const (
	firstLookups = 32
	mostDoubled  = 4
)

// due counts a lookup, and reports whether pages are to leave memory.
func (p *pace) due() bool {
	if p.lookups++; p.lookups < firstLookups<<p.doubled {
		return false
	}
	p.lookups, p.doubled = 0, min(p.doubled+1, mostDoubled)
	return true
}

// forgetNow counts a lookup, and calls forget if it is time.
func (f *File) forgetNow() {
	if !f.pace.due() {
		return
	}
	for _, i := range f.images() {
		i.forget()
	}
	if f.sup != nil {
		f.sup.image.forget()
	}
	for _, z := range f.debugInfo.inflating {
		z.forget()
	}
}

// KeepMangled leaves the names of functions in frames as compilers made them. It is called before the first lookup.
func (f *File) KeepMangled() { f.debugInfo.mangled = true }

// demangled returns the demangled name of a symbol, unless the file keeps mangled names. Many addresses share one string.
func (f *File) demangled(name string) string {
	if f.debugInfo.mangled {
		return name
	}
	plain, ok := f.names[name]
	if ok {
		return plain
	}
	if plain = symbol.Demangle(name); plain != name {
		if f.names == nil {
			f.names = make(map[string]string)
		}
		f.names[name] = plain
	}
	return plain
}

// Lines returns the rows of the line table for the code from start up to end, sorted by address. It returns none if the file has no lines.
func (f *File) Lines(start, end uint64) []dwarf.Line {
	gotab := f.goTable()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetNow()
	var lines []dwarf.Line
	_ = guard(func() error {
		if gotab != nil {
			for _, l := range gotab.Lines(start, end) {
				lines = append(lines, dwarf.Line{Addr: l.Addr, File: l.File, Line: l.Line, Statement: true})
			}
		}
		if lines == nil {
			lines = f.dwarf().Lines(start, end)
		}
		return nil
	})
	return lines
}
