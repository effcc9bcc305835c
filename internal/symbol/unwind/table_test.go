package unwind

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

// ehFrame returns a file's .eh_frame, and the ranges of its code.
func ehFrame(t *testing.T, path string) (m *Module, code []Range) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := f.Section(".eh_frame")
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	arch := AMD64
	if f.Machine == elf.EM_AARCH64 {
		arch = ARM64
	}
	var segments []*elf.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			segments = append(segments, p)
			code = append(code, Range{p.Vaddr, p.Vaddr + p.Filesz})
		}
	}
	m, err = NewModule(arch, Section{s.Addr, data}, Section{}, func(start, end uint64) ([]byte, error) {
		for _, p := range segments {
			if start >= p.Vaddr && end <= p.Vaddr+p.Filesz {
				b := make([]byte, end-start)
				_, err := p.ReadAt(b, int64(start-p.Vaddr))
				return b, err
			}
		}
		return nil, errors.New("no code")
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, code
}

// rule returns the rule for an address of the file.
func (t *Table) rule(address uint64) Rule {
	offset := address - t.Base
	n := sort.Search(len(t.Rows), func(n int) bool { return uint64(t.Rows[n].Offset) > offset })
	if n == 0 || address < t.Base {
		return Rule{}
	}
	return t.Rules[t.Rows[n-1].Rule]
}

// applyRule finds the registers of the caller in the same way as bpf/unwind.h.
func (w *walk) applyRule(r Rule) error {
	at := func(b Base, offset int32, cfa uint64) uint64 {
		switch b {
		case AtSP:
			cfa, _ = w.registers.get(w.arch.sp())
		case AtFP:
			cfa, _ = w.registers.get(w.arch.framePointer())
		}
		return cfa + uint64(int64(offset))
	}
	load := func(b Base, offset int32, cfa uint64) (uint64, error) {
		address := at(b, offset, cfa)
		v, ok := w.memory(address)
		if !ok {
			return 0, memoryError(address)
		}
		return v, nil
	}
	var cfa, pc, fp uint64
	var err error
	switch {
	case r.CFA == None:
		return errRegister
	case r.CFA == PLT:
		pc, _ := w.registers.get(w.arch.pc())
		cfa = at(AtSP, 8, 0)
		if pc&15 >= uint64(r.CFAOffset) {
			cfa += 8
		}
	case r.CFA&Loaded != 0:
		cfa, err = load(r.CFA&^Loaded, r.CFAOffset, 0)
	default:
		cfa = at(r.CFA, r.CFAOffset, 0)
	}
	if err != nil {
		return err
	}
	lr, _ := w.registers.get(arm64LR)
	if pc = lr; r.RA != Same {
		if pc, err = load(r.RA, r.RAOffset, cfa); err != nil {
			return err
		}
	}
	if w.arch == ARM64 {
		lr = pc
		if r.Signal {
			lr, _ = load(r.RA, r.RAOffset-16, cfa)
		}
		w.registers.Set(arm64LR, lr)
	}
	fpKnown := true
	switch r.FP {
	case None:
		fpKnown = false
	case Same:
		fp, fpKnown = w.registers.get(w.arch.framePointer())
	default:
		fp, err = load(r.FP, r.FPOffset, cfa)
		fpKnown = err == nil
	}
	w.registers.Set(w.arch.framePointer(), fp)
	if !fpKnown {
		w.registers.forget(w.arch.framePointer())
	}
	w.registers.Set(w.arch.pc(), pc)
	w.registers.Set(w.arch.sp(), cfa)
	return nil
}

// sameAsTables compares a Table at an address with the call frame information. known is false if neither covers the address.
func sameAsTables(t *testing.T, m *Module, table *Table, address uint64, stack []byte) (known bool) {
	t.Helper()
	want, rule := m.row(address, false), table.rule(address)
	if want != nil && want.end {
		if rule.RA != End {
			t.Errorf("%#x: %+v, where there is no caller", address, rule)
		}
		return true
	}
	if rule == (Rule{}) {
		return false
	}
	if want == nil {
		t.Errorf("%#x: %+v, where there is nothing", address, rule)
		return true
	}
	const stackAt = 0x7ff000000000
	tables := walk{Unwinder: New(m.arch), sample: &Sample{Stack: stack}, stackAt: stackAt}
	for n := range uint64(registerCount) {
		tables.registers.Set(n, stackAt+uint64(len(stack)/2)+n*256)
	}
	tables.registers.Set(m.arch.pc(), address)
	rules := tables
	err := error(nil)
	if want.restorer {
		err = tables.fromSignal()
	} else {
		err = tables.apply(want)
	}
	errRule := rules.applyRule(rule)
	if (err == nil) != (errRule == nil) || rule.Signal != want.signal {
		t.Errorf("%#x: %+v: %v, signal %v; not %v, %v", address, rule, errRule, rule.Signal, err, want.signal)
	}
	registers := []uint64{m.arch.pc(), m.arch.sp(), m.arch.framePointer()}
	if m.arch == ARM64 {
		registers = append(registers, arm64LR)
	}
	for _, n := range registers {
		a, aKnown := tables.registers.get(n)
		b, bKnown := rules.registers.get(n)
		if err == nil && (a != b || aKnown != bKnown) && !(rule.FP == None && n == m.arch.framePointer()) {
			t.Errorf("%#x: %+v: register %d is %#x, %v; not %#x, %v", address, rule, n, b, bKnown, a, aKnown)
		}
	}
	return true
}

// stackOfPointers is a stack whose words all point into it.
func stackOfPointers() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	stack := make([]byte, 1<<20)
	for n := 0; n < len(stack); n += 8 {
		binary.LittleEndian.PutUint64(stack[n:], 0x7ff000000000+random.Uint64N(uint64(len(stack)/8))*8)
	}
	return stack
}

// TestCompile compares the first and the last byte of each row with the call frame information of a fixture, of the C library, and of other
// compiled files on this machine.
func TestCompile(t *testing.T) {
	paths := []string{"testdata/signals-arm64"}
	for _, pattern := range []string{"/lib*/*-linux-gnu/libc.so.6", "/lib*/*-linux-gnu/libm.so.6", "/lib*/*-linux-gnu/ld-linux-*.so.*", "/usr/bin/git", "/bin/bash"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	stack := stackOfPointers()
	for _, path := range paths {
		m, code := ehFrame(t, path)
		table, err := m.Compile(code)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		unknown := 0
		for n, row := range table.Rows[:len(table.Rows)-1] {
			for _, offset := range []uint32{row.Offset, table.Rows[n+1].Offset - 1} {
				address := table.Base + uint64(offset)
				if _, e := m.find(address); e == nil && row.Rule != 0 && address-table.Base == uint64(table.Rows[n+1].Offset-1) {
					continue // padding after a function
				}
				if !sameAsTables(t, m, table, address, stack) && m.row(address, false) != nil {
					unknown++
				}
			}
		}
		t.Logf("%s: %d entries, %d rows, %d rules; %d bytes of code, %d unknown; with frames %d, by frame pointers %d", path, len(m.tables[0].entries),
			len(table.Rows), len(table.Rules), table.Code, table.Unknown, table.Frames, table.FramePointers)
		atMost := 1 // percent
		if strings.Contains(path, "/ld-linux-") {
			atMost = 4 // the code that resolves symbols at their first call finds its frame by rbx: 2.0 % of glibc 2.41
		}
		if unknown*100 > atMost*len(table.Rows) || table.Unknown*100 > uint64(atMost)*table.Code {
			t.Errorf("%s: %d of %d rows, and %d of %d bytes of code are unknown", path, unknown, len(table.Rows), table.Unknown, table.Code)
		}
	}
}

// TestRules tries several ways to describe a frame.
func TestRules(t *testing.T) {
	ret := Rule{CFA: AtSP, CFAOffset: 8, RA: AtCFA, RAOffset: -8, FP: Same}
	with := func(change func(*Rule)) Rule {
		r := ret
		change(&r)
		return r
	}
	for _, test := range []struct {
		name         string
		arch         Arch
		signal       bool
		instructions []byte
		want         Rule
	}{
		{"at the entry", AMD64, false, nil, ret},
		{"pushed", AMD64, false, []byte{0x0e, 16, 0x86, 2}, with(func(r *Rule) { r.CFAOffset, r.FP, r.FPOffset = 16, AtCFA, -16 })},
		{"frame pointer", AMD64, false, []byte{0x0d, amd64BP}, with(func(r *Rule) { r.CFA = AtFP })},
		{"another register", AMD64, false, []byte{0x0d, 3}, Rule{}},
		{"realigned", AMD64, false, []byte{0x0f, 3, 0x76, 0x78, 0x06, 0x10, amd64BP, 2, 0x76, 0},
			with(func(r *Rule) { r.CFA, r.CFAOffset, r.FP = AtFP|Loaded, -8, AtFP })},
		{"linkage table", AMD64, false, plt, with(func(r *Rule) { r.CFA, r.CFAOffset = PLT, 11 })},
		{"another expression", AMD64, false, []byte{0x0f, 3, 0x77, 24, 0x96}, Rule{}},
		{"an expression of nothing", AMD64, false, []byte{0x0f, 0}, Rule{}},
		{"signal", AMD64, true, []byte{0x0f, 3, 0x77, 16, 0x06, 0x10, amd64PC, 2, 0x77, 24, 0x10, amd64SP, 2, 0x77, 16},
			Rule{CFA: AtSP | Loaded, CFAOffset: 16, RA: AtSP, RAOffset: 24, FP: Same, Signal: true}},
		{"another stack pointer", AMD64, false, []byte{0x10, amd64SP, 2, 0x77, 16}, Rule{}},
		{"stack pointer is the CFA", AMD64, false, []byte{0x14, amd64SP, 0}, ret},
		{"stack pointer is not the CFA", AMD64, false, []byte{0x14, amd64SP, 1}, Rule{}},
		{"outermost", AMD64, false, []byte{0x07, amd64PC}, Rule{RA: End}},
		{"frame pointer unknown", AMD64, false, []byte{0x07, amd64BP}, with(func(r *Rule) { r.FP = None })},
		{"return address in a register", AMD64, false, []byte{0x09, amd64PC, 5}, Rule{}},
		{"too far", AMD64, false, []byte{0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f}, Rule{}},
		{"unknown instruction", AMD64, false, []byte{0x3f}, Rule{}},
		{"back", AMD64, false, []byte{0x02, 8, 0x01, 0, 0, 0, 0x80, 0x0e, 16}, ret},
		{"leaf", ARM64, false, nil, Rule{CFA: AtSP, RA: Same, FP: Same}},
		{"frame", ARM64, false, []byte{0x0e, 32, 0x9d, 4, 0x9e, 3}, Rule{CFA: AtSP, CFAOffset: 32, RA: AtCFA, RAOffset: -24, FP: AtCFA, FPOffset: -32}},
		{"signal", ARM64, true, nil, Rule{CFA: AtSP | Loaded, CFAOffset: 560, RA: AtSP, RAOffset: 568, FP: AtSP, FPOffset: 544, Signal: true}},
	} {
		table, err := module(t, test.arch, test.signal, test.instructions...).Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.rule(0x1000); got != test.want {
			t.Errorf("%s: %+v, not %+v", test.name, got, test.want)
		}
		if got := table.rule(0x3000); got.RA != End {
			t.Errorf("%s: %+v of the caller, which is the outermost one", test.name, got)
		}
		for _, nothing := range []uint64{0xfff, 0x1100, 0x2fff, 0x3100} {
			if got := table.rule(nothing); got != (Rule{}) {
				t.Errorf("%s: %+v at %#x, where there is no code", test.name, got, nothing)
			}
		}
	}
}

// TestCompileTables has entries that touch, entries that overlap, and restorers between them.
func TestCompileTables(t *testing.T) {
	var s frameSection
	c := s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x80|amd64PC, 1)
	s.function(c, 0x1000, 0x10, 0x44, 0x0e, 16) // 16 after 4 bytes
	s.function(c, 0x1018, 0x08, 0x0e, 16)       // after padding
	s.function(c, 0x2000, 0x1000)
	s.function(c, 0x2800, 0x10, 0x0e, 24) // within the previous one, which ends with it
	restorer := restorers[AMD64].code
	code := slices.Concat(make([]byte, 0x21), restorer, make([]byte, 0x1000))
	m, err := NewModule(AMD64, Section{sectionAt, s.b}, Section{}, func(start, end uint64) ([]byte, error) {
		if start < 0x1000 || end > 0x1000+uint64(len(code)) {
			return nil, errors.New("not there")
		}
		return code[start-0x1000 : end-0x1000], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := m.Compile([]Range{{0xf00, 0x1000}, {0x1000, 0x2000}})
	if err != nil {
		t.Fatal(err)
	}
	want := []TableRow{{0, 1}, {4, 2}, {0x20, 3}, {0x2b, 0}, {0x1000, 1}, {0x1800, 4}, {0x1810, 0}}
	if table.Base != 0x1000 || !slices.Equal(table.Rows, want) || !table.Rules[3].Signal {
		t.Errorf("%#x: %#x, %+v; not %#x", table.Base, table.Rows, table.Rules, want)
	}
	if table.Code != 0x10+8+11+0x800+0x10 || table.Unknown != 0 || table.Frames != 0x10+8+0x10 || table.FramePointers != 0 {
		t.Errorf("%+v", table)
	}
	none, err := NewModule(AMD64, Section{}, Section{}, func(start, end uint64) ([]byte, error) { return make([]byte, end-start), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Compile([]Range{{0, 1 << 30}, {1 << 31, 1<<31 + 4096}}); !errors.Is(err, ErrNoTables) {
		t.Errorf("without tables: %v", err)
	}
}

// FuzzCompile takes any tables.
func FuzzCompile(f *testing.F) {
	var s frameSection
	s.function(s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x90, 1), 0x1000, 0x100, 0x41, 0x0e, 16, 0x86, 2)
	s.function(s.common("zRS", arm64LR, plt...), 0x1080, 0x100, 0x41, 0x0a, 0x10, 3, 1, 0x06, 0x0b)
	f.Add(s.b, restorers[AMD64].code[:restorers[AMD64].call], false)
	f.Add(s.b, restorers[ARM64].code, true)
	f.Fuzz(func(t *testing.T, eh, code []byte, arm bool) {
		arch := AMD64
		if arm {
			arch = ARM64
		}
		m, _ := NewModule(arch, Section{sectionAt, eh}, Section{}, func(start, end uint64) ([]byte, error) {
			if end-start > 1<<20 {
				return nil, errors.New("too long")
			}
			return append(make([]byte, end-start), code...)[len(code):], nil
		})
		table, err := m.Compile([]Range{{0x900, 0x1100}, {0x1100, 0x2000}})
		if err != nil {
			return
		}
		for n, row := range table.Rows {
			if n > 0 && row.Offset <= table.Rows[n-1].Offset || int(row.Rule) >= len(table.Rules) {
				t.Fatalf("row %d: %+v, behind %+v; %d rules", n, row, table.Rows[max(n, 1)-1], len(table.Rules))
			}
		}
		if last := table.Rows[len(table.Rows)-1]; last.Rule != 0 {
			t.Errorf("the last row is %+v", last)
		}
	})
}
