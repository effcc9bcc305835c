// Package kernel names addresses of the kernel and of its modules by kallsyms. What comes and goes there is in package timeline.
package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/symbol"
)

// ErrHidden says that kallsyms has no addresses.
var ErrHidden = errors.New("the kernel hides its addresses from this process: all are 0. " +
	"Run as root; where root does not see them either: sysctl kernel.kptr_restrict=1")

// Entry is a line of kallsyms (proc(5), /proc/kallsyms).
type Entry struct {
	Address uint64
	Type    byte // as nm(1) has it
	Name    string
	Module  string // empty for the kernel itself; bpf and __builtin__… for what is no module, but comes and goes like one
}

// Entries are the lines of kallsyms. The strings are part of the text. It ends at the first line that is none.
func Entries(text string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for line := 1; text != ""; line++ {
			end := strings.IndexByte(text, '\n')
			if end < 0 {
				end = len(text)
			}
			e, ok := parseEntry(text[:end])
			if !ok {
				yield(Entry{}, fmt.Errorf("kallsyms, line %d: %.100q is not an address, a type and a name", line, text[:end]))
				return
			}
			if !yield(e, nil) {
				return
			}
			text = text[min(end+1, len(text)):]
		}
	}
}

func parseEntry(line string) (e Entry, ok bool) {
	i := 0
	for ; i < len(line) && i < 16; i++ {
		digit, ok := hexDigit(line[i])
		if !ok {
			break
		}
		e.Address = e.Address<<4 | digit
	}
	if i == 0 || len(line) < i+4 || line[i] != ' ' || line[i+2] != ' ' {
		return Entry{}, false
	}
	e.Type, e.Name = line[i+1], line[i+3:]
	if tab := strings.IndexByte(e.Name, '\t'); tab >= 0 {
		module := e.Name[tab+1:]
		if len(module) < 2 || module[0] != '[' || module[len(module)-1] != ']' {
			return Entry{}, false
		}
		e.Name, e.Module = e.Name[:tab], module[1:len(module)-1]
	}
	return e, e.Name != ""
}

func hexDigit(c byte) (n uint64, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0'), true
	case c >= 'a' && c <= 'f':
		return uint64(c - 'a' + 10), true
	}
	return 0, false
}

// Kallsyms are the symbols of a kernel at one moment. It does not change once it is made, so goroutines may share it.
type Kallsyms struct {
	starts  []uint64 // of symbols: what Find searches in
	symbols []Symbol
}

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
// time of reading says nothing of another time (see package timeline). It fails with ErrHidden if the kernel shows no addresses.
func Parse(text string) (*Kallsyms, error) {
	all := make([]Symbol, 0, len(text)/44+1)
	hidden := true
	for e, err := range Entries(text) {
		if err != nil {
			return nil, err
		}
		hidden = hidden && e.Address == 0
		if binding, ok := bindingOf(e.Type); ok && e.Name[0] != '$' {
			all = append(all, Symbol{symbol.Symbol{Name: e.Name, Start: e.Address, Binding: binding}, e.Module})
		}
	}
	if hidden && text != "" {
		return nil, ErrHidden
	}
	byStart := func(a, b Symbol) int { return cmp.Compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(all, byStart) { // modules come in any order
		slices.SortStableFunc(all, byStart)
	}
	setEnds(all)
	all = slices.DeleteFunc(all, func(s Symbol) bool { return s.End == s.Start || comesAndGoes(s.Module) })
	k := &Kallsyms{make([]uint64, len(all)), all}
	for i := range all {
		k.starts[i] = all[i].Start
	}
	return k, nil
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

func comesAndGoes(module string) bool {
	return module == "bpf" || strings.HasPrefix(module, "__builtin__")
}

// setEnds ends each symbol where the next one starts, but not beyond a module, as other things lie between modules.
func setEnds(all []Symbol) {
	for i := range all {
		s := &all[i]
		last := (s.Start+lastPage-1)&^(lastPage-1) + lastPage
		if last < s.Start {
			last = ^uint64(0)
		}
		switch {
		case i+1 == len(all):
			s.End = last
		case all[i+1].Module != s.Module && all[i+1].Start != s.Start:
			s.End = min(last, all[i+1].Start)
		default:
			s.End = all[i+1].Start
		}
	}
}

// Find returns the symbol that addr is in, or nil. It does not allocate.
func (k *Kallsyms) Find(addr uint64) *Symbol {
	lo, hi := 0, len(k.starts)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if k.starts[mid] <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || addr >= k.symbols[lo-1].End {
		return nil
	}
	return &k.symbols[lo-1]
}

// Relocate makes the symbols those of a start of the same kernel for which a reference symbol, such as _text or _stext, was at an address:
// the kernel is put elsewhere at each start. The text is that of which k was made. Modules are left out where the kernel was elsewhere, as
// each of them was, too. It fails if there is no such symbol.
func (k *Kallsyms) Relocate(text, reference string, address uint64) (*Kallsyms, error) {
	for e, err := range Entries(text) {
		if err != nil {
			return nil, err
		}
		if e.Name == reference && e.Module == "" {
			return k.move(address - e.Address), nil
		}
	}
	return nil, fmt.Errorf("the kernel was recorded with its symbol %s at %#x, which this kallsyms does not have: it is of another kernel",
		reference, address)
}

func (k *Kallsyms) move(delta uint64) *Kallsyms {
	if delta == 0 {
		return k
	}
	moved := &Kallsyms{}
	for _, s := range k.symbols {
		if s.Module != "" {
			continue
		}
		s.Start, s.End = s.Start+delta, s.End+delta
		moved.starts, moved.symbols = append(moved.starts, s.Start), append(moved.symbols, s)
	}
	return moved
}
