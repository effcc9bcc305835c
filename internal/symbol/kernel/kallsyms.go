// Package kernel finds the symbols of addresses in the kernel and its modules, from kallsyms. It ignores code that comes and goes, such as
// BPF programs: recordings have separate records for it (package replay).
package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol"
)

// ErrHidden reports that every address in kallsyms is 0, because the kernel hides them from this process.
var ErrHidden = errors.New("the kernel hides its addresses from this process: all are 0. " +
	"Run as root; where root does not see them either: sysctl kernel.kptr_restrict=1")

// Kallsyms holds the symbols of a kernel at one moment: a hundred thousand and more. It is immutable and safe for concurrent use.
type Kallsyms struct {
	segments []segment
	entries  entries  // sorted by address
	names    [][]byte // blocks of names; each name ends with a line feed
	modules  []string // the first is empty: the kernel itself
	delta    uint64   // what to add to the addresses in entries: the recorded kernel was loaded elsewhere
}

// segment is a run of entries of one module that spans less than 4 GiB. It ends where the next segment begins.
type segment struct {
	base   uint64 // the start of its first entry
	first  uint32 // the index of its first entry
	module uint16 // index in modules
}

// entry is a symbol in 8 bytes. It ends at the start of the next one, or earlier.
type entry struct {
	start uint32 // relative to the base of the segment
	name  uint32 // offset in the concatenated blocks of names, shifted left by bindingBits; the low bits hold the binding
}

// bindingBits is the number of bits that the binding takes in entry.name.
const bindingBits = 2

// entries have the form that they have in a file, which is mapped.
type entries []byte

const entrySize = 8

func (e entries) len() int { return len(e) / entrySize }

func (e entries) at(i int) entry {
	b := e[entrySize*i:][:entrySize]
	return entry{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
}

func (e entries) slice(from, to int) entries { return e[entrySize*from : entrySize*to] }

func (e entries) append(next entry) entries {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(e, next.start), next.name)
}

func (e entry) binding() symbol.Binding { return symbol.Binding(e.name & (1<<bindingBits - 1)) }

// found is a parsed symbol that is not in a segment yet.
type found struct {
	start  uint64
	name   uint32 // as in entry
	module uint16
}

// namesSize is the size of a block of names in bytes.
const namesSize = procfs.MaxKernelSymbol

// Symbol is a symbol of the kernel or of a module.
type Symbol struct {
	symbol.Symbol
	Module string // empty for the kernel itself
}

// Parse reads kallsyms of this machine, or a copy from another machine. Like perf, it skips read-only data and mapping symbols of Arm, and
// keeps only the last of the symbols at one address. It also hides code that comes and goes (BPF programs, ftrace), because the code at the
// time of reading may differ from the code at another time. It returns ErrHidden if the kernel hides all addresses.
//
// If reference is not empty, Parse relocates the symbols to another boot of the same kernel, which had the symbol reference (such as _text
// or _stext) at address: each boot may load the kernel elsewhere. If the kernel moved, the result has no modules, because each of them
// moved too. Parse fails if kallsyms has no symbol reference.
func Parse(r io.Reader, reference string, address uint64) (*Kallsyms, error) {
	p := parser{Kallsyms: Kallsyms{modules: []string{""}}, numbers: map[string]uint16{"": 0}}
	hidden, empty, moved := true, true, reference != ""
	for e, err := range procfs.KernelSymbols(r) {
		if err != nil {
			return nil, err
		}
		hidden, empty = hidden && e.Address == 0, false
		if moved && e.Name == reference && e.Module == "" {
			p.delta, moved = address-e.Address, false
		}
		if err := p.add(e); err != nil {
			return nil, err
		}
	}
	switch {
	case hidden && !empty:
		return nil, ErrHidden
	case moved:
		return nil, fmt.Errorf("the kernel was recorded with its symbol %s at %#x, which this kallsyms does not have: it is of another kernel",
			reference, address)
	}
	return p.finish(), nil
}

// parser collects the symbols of a Kallsyms.
type parser struct {
	Kallsyms
	blocks  [][]found // a new block begins when the last one is full
	block   []byte
	numbers map[string]uint16 // index in modules by name
}

func (p *parser) add(e procfs.KernelSymbol) error {
	binding, ok := bindingOf(e.Type)
	if !ok || e.Name[0] == '$' {
		return nil
	}
	module, ok := p.numbers[e.Module]
	if !ok {
		if len(p.modules) > math.MaxUint16 {
			return fmt.Errorf("kallsyms has more than %d modules", len(p.modules)-1)
		}
		module = uint16(len(p.modules))
		p.modules = append(p.modules, strings.Clone(e.Module))
		p.numbers[p.modules[module]] = module
	}
	if len(p.block)+len(e.Name)+1 > namesSize {
		p.endNames()
	}
	if p.block == nil {
		p.block = make([]byte, 0, namesSize)
	}
	at := len(p.names)*namesSize + len(p.block)
	if at >= 1<<(32-bindingBits) {
		return errors.New("kallsyms has names of more than 1 GiB")
	}
	p.block = append(append(p.block, e.Name...), '\n')
	last := len(p.blocks) - 1
	if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
		p.blocks = append(p.blocks, make([]found, 0, 4096))
		last++
	}
	p.blocks[last] = append(p.blocks[last], found{e.Address, uint32(at)<<bindingBits | uint32(binding), module})
	return nil
}

func (p *parser) endNames() {
	p.names, p.block = append(p.names, p.block), nil
}

func (p *parser) finish() *Kallsyms {
	p.endNames()
	all := slices.Concat(p.blocks...)
	byStart := func(a, b found) int { return cmp.Compare(a.start, b.start) }
	if !slices.IsSortedFunc(all, byStart) { // modules are in no order
		slices.SortStableFunc(all, byStart)
	}
	p.entries = make(entries, 0, entrySize*len(all))
	for i, f := range all {
		last := len(p.segments) - 1
		if last < 0 || p.segments[last].module != f.module || f.start-p.segments[last].base > math.MaxUint32 {
			p.segments = append(p.segments, segment{f.start, uint32(i), f.module})
			last++
		}
		p.entries = p.entries.append(entry{uint32(f.start - p.segments[last].base), f.name})
	}
	symbols := p.Kallsyms // a copy without the rest of the parser, which can then be freed
	return &symbols
}

// bindingOf returns the binding of a symbol of the given type. ok is false unless it is code, writable data or a weak symbol.
func bindingOf(kind byte) (b symbol.Binding, ok bool) {
	switch kind {
	case 'T', 'D', 'B':
		return symbol.Global, true
	case 't', 'd', 'b':
		return symbol.Local, true
	case 'W', 'w':
		return symbol.Weak, true
	}
	return 0, false
}

// ComesAndGoes reports whether the code of a module of kallsyms comes and goes: BPF programs, and ftrace (__builtin__…).
func ComesAndGoes(module string) bool {
	return module == "bpf" || strings.HasPrefix(module, "__builtin__")
}

// Find returns the symbol that contains addr, and false if there is none.
func (k *Kallsyms) Find(addr uint64) (Symbol, bool) {
	at := addr - k.delta
	s := preceding(len(k.segments), func(i int) bool { return k.segments[i].base <= at }) - 1
	if s < 0 {
		return Symbol{}, false
	}
	segment := &k.segments[s]
	entries := k.entries.slice(int(segment.first), k.lastOf(s))
	i := preceding(entries.len(), func(i int) bool { return segment.base+uint64(entries.at(i).start) <= at }) - 1
	found := entries.at(i)
	start, end := segment.base+uint64(found.start), uint64(0)
	if i+1 < entries.len() {
		end = segment.base + uint64(entries.at(i+1).start)
	} else {
		end = k.endOf(s, start)
	}
	module := k.modules[segment.module]
	if at >= end || ComesAndGoes(module) || k.delta != 0 && module != "" {
		return Symbol{}, false
	}
	name, _, _ := bytes.Cut(k.nameAt(found), []byte{'\n'})
	return Symbol{symbol.Symbol{Name: string(name), Start: start + k.delta, End: end + k.delta, Binding: found.binding()}, module}, true
}

// preceding returns how many of n ordered elements satisfy before; those come first.
func preceding(n int, before func(int) bool) int {
	return sort.Search(n, func(i int) bool { return !before(i) })
}

// endOf returns the end of the last symbol of segment s, which begins at start: the start of the next segment. At the end of a module it is
// at most symbol.EndOfLast, because other things lie between modules.
func (k *Kallsyms) endOf(s int, start uint64) uint64 {
	switch {
	case s+1 == len(k.segments):
		return symbol.EndOfLast(start)
	case k.segments[s+1].module != k.segments[s].module:
		return min(symbol.EndOfLast(start), k.segments[s+1].base)
	}
	return k.segments[s+1].base
}
