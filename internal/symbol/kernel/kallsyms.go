// Package kernel names addresses of the kernel and of its modules by kallsyms. Code that comes and goes there has records of its own in a recording (package replay).
package kernel

import (
	"cmp"
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

// ErrHidden says that kallsyms has no addresses.
var ErrHidden = errors.New("the kernel hides its addresses from this process: all are 0. " +
	"Run as root; where root does not see them either: sysctl kernel.kptr_restrict=1")

// Kallsyms are the symbols of a kernel at one moment, of which there are a hundred thousand and more. It does not change once it is made, so
// goroutines may share it.
type Kallsyms struct {
	segments []segment
	entries  []entry // by their start
	names    []string
	modules  []string // the kernel itself first
	delta    uint64   // of what was there to where the kernel was
}

// segment are the entries from first up to those of the next segment: of one module, and in less than 4 GiB.
type segment struct {
	base   uint64 // where the first one starts
	first  uint32
	module uint16 // the position in modules
}

// entry is a symbol in 8 bytes. It ends where the next one starts, or before.
type entry struct {
	start uint32 // behind the base of the segment
	name  uint32 // the position in names, all after another, in the upper bits; then the binding
}

// bindingBits is how many bits of an entry's name the binding takes.
const bindingBits = 2

func (e entry) binding() symbol.Binding { return symbol.Binding(e.name & (1<<bindingBits - 1)) }

// found is an entry before they are put into segments.
type found struct {
	start  uint64
	name   uint32 // as in entry
	module uint16
}

// namesSize is the size of each of names, which end with a line feed.
const namesSize = procfs.MaxKernelSymbol

// Symbol is a symbol of the kernel or of a module.
type Symbol struct {
	symbol.Symbol
	Module string // empty for the kernel itself
}

// lastPage is the size of pages that the ends of last symbols are counted in: a symbol without a successor ends with the page after its own,
// as in perf.
const lastPage = 4096

// Parse reads kallsyms, of this machine or a copy of another's. Like perf it leaves data out that is read only, mapping symbols of Arm, and
// of symbols at one address all but the last. Code that comes and goes, BPF's and that of ftrace, is left out as well: what there is at the
// time of reading says nothing of another time. It fails with ErrHidden if the kernel shows no addresses.
//
// Where reference is not empty, the symbols are those of a start of the same kernel for which this symbol, such as _text or _stext, was at an
// address: the kernel is put elsewhere at each start. Modules are left out where the kernel was elsewhere, as each of them was, too. It
// fails if there is no such symbol.
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

// parser collects symbols.
type parser struct {
	Kallsyms
	blocks  [][]found // one is full before the next one begins
	block   strings.Builder
	numbers map[string]uint16 // of modules
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
	if p.block.Len()+len(e.Name)+1 > namesSize {
		p.endNames()
	}
	if p.block.Len() == 0 {
		p.block.Grow(namesSize)
	}
	at := len(p.names)*namesSize + p.block.Len()
	if at >= 1<<(32-bindingBits) {
		return errors.New("kallsyms has names of more than 1 GiB")
	}
	p.block.WriteString(e.Name)
	p.block.WriteByte('\n')
	last := len(p.blocks) - 1
	if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
		p.blocks = append(p.blocks, make([]found, 0, 4096))
		last++
	}
	p.blocks[last] = append(p.blocks[last], found{e.Address, uint32(at)<<bindingBits | uint32(binding), module})
	return nil
}

func (p *parser) endNames() {
	p.names = append(p.names, p.block.String())
	p.block.Reset()
}

func (p *parser) finish() *Kallsyms {
	p.endNames()
	all := slices.Concat(p.blocks...)
	byStart := func(a, b found) int { return cmp.Compare(a.start, b.start) }
	if !slices.IsSortedFunc(all, byStart) { // modules come in any order
		slices.SortStableFunc(all, byStart)
	}
	p.entries = make([]entry, len(all))
	for i, f := range all {
		last := len(p.segments) - 1
		if last < 0 || p.segments[last].module != f.module || f.start-p.segments[last].base > math.MaxUint32 {
			p.segments = append(p.segments, segment{f.start, uint32(i), f.module})
			last++
		}
		p.entries[i] = entry{uint32(f.start - p.segments[last].base), f.name}
	}
	symbols := p.Kallsyms // without what it took to collect them
	return &symbols
}

// bindingOf takes code, weak symbols and data that can be written; ok is false for others.
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

func ComesAndGoes(module string) bool {
	return module == "bpf" || strings.HasPrefix(module, "__builtin__")
}

// Find returns the symbol that addr is in; false if there is none. It does not allocate.
func (k *Kallsyms) Find(addr uint64) (Symbol, bool) {
	at := addr - k.delta
	s := preceding(len(k.segments), func(i int) bool { return k.segments[i].base <= at }) - 1
	if s < 0 {
		return Symbol{}, false
	}
	segment, last := &k.segments[s], len(k.entries)
	if s+1 < len(k.segments) {
		last = int(k.segments[s+1].first)
	}
	entries := k.entries[segment.first:last]
	i := preceding(len(entries), func(i int) bool { return segment.base+uint64(entries[i].start) <= at }) - 1
	start, end := segment.base+uint64(entries[i].start), uint64(0)
	if i+1 < len(entries) {
		end = segment.base + uint64(entries[i+1].start)
	} else {
		end = k.endOf(s, start)
	}
	module := k.modules[segment.module]
	if at >= end || ComesAndGoes(module) || k.delta != 0 && module != "" {
		return Symbol{}, false
	}
	position := entries[i].name >> bindingBits
	name, _, _ := strings.Cut(k.names[position/namesSize][position%namesSize:], "\n")
	return Symbol{symbol.Symbol{Name: name, Start: start + k.delta, End: end + k.delta, Binding: entries[i].binding()}, module}, true
}

// preceding returns how many of n things in order are before what is looked for.
func preceding(n int, before func(int) bool) int {
	return sort.Search(n, func(i int) bool { return !before(i) })
}

// endOf ends the last symbol of a segment, which starts at an address, where the next one starts, but not beyond a module, as other things lie
// between modules.
func (k *Kallsyms) endOf(s int, start uint64) uint64 {
	last := (start+lastPage-1)&^(lastPage-1) + lastPage
	if last < start {
		last = math.MaxUint64
	}
	switch {
	case s+1 == len(k.segments):
		return last
	case k.segments[s+1].module != k.segments[s].module:
		return min(last, k.segments[s+1].base)
	}
	return k.segments[s+1].base
}
