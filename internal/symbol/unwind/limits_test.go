package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// compile compiles the section that a test has built.
func compile(t *testing.T, s *frameSection) (*Table, error) {
	t.Helper()
	m, err := NewModule(AMD64, Section{sectionAt, s.b}, Section{}, noCode)
	if err != nil {
		t.Fatal(err)
	}
	return m.Compile(nil)
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// nops are the instructions of a common information entry: def_cfa rsp, 8, and many nops.
var nops = append([]byte{0x0c, amd64SP, 8}, make([]byte, 90_000)...)

// TestSharedCommon has entries that share a common information entry with very many instructions. These must be executed only once.
func TestSharedCommon(t *testing.T) {
	var s frameSection
	c := s.common("zR", amd64PC, nops...)
	for n := range uint64(2 * maxExecuted / len(nops)) {
		s.function(c, 0x1000+16*n, 16, 0x80|amd64PC, 1)
	}
	if table, err := compile(t, &s); err != nil || len(table.Rows) != 2 {
		t.Errorf("error %v, %d rows", err, len(table.Rows))
	}
}

// TestMaxExecuted has entries that use two such common information entries in turn.
func TestMaxExecuted(t *testing.T) {
	var s frameSection
	a, b := s.common("zR", amd64PC, nops...), s.common("zR", amd64PC, nops...)
	for n := range uint64(maxExecuted/len(nops)/2 + 2) {
		s.function(a, 0x1000+32*n, 16)
		s.function(b, 0x1010+32*n, 16)
	}
	if table, err := compile(t, &s); err == nil || !strings.Contains(err.Error(), "more than 33554432 instructions") {
		t.Errorf("error %v, %d rows", err, len(table.Rows))
	}
}

// TestMaxRules has one function with a rule for each byte. Compile must stop before its end.
func TestMaxRules(t *testing.T) {
	var s frameSection
	var instructions []byte
	for n := range uint64(2 * maxRules) {
		instructions = append(binary.AppendUvarint(append(instructions, 0x0e), 16+8*n), 0x41)
	}
	s.function(s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x80|amd64PC, 1), 0x1000, 1<<20, instructions...)
	table, err := compile(t, &s)
	if err == nil || !strings.Contains(err.Error(), "more than 8192 different rules") || len(table.Rules) > maxRules || len(table.Rows) > maxRules+2 {
		t.Errorf("error %v, %d rules, %d rows", err, len(table.Rules), len(table.Rows))
	}
}

// TestMaxCommons has entries with a common information entry each. In memory, an entry would be small.
func TestMaxCommons(t *testing.T) {
	var s frameSection
	for n := range uint64(maxCommons + 1) {
		s.function(s.common("zR", amd64PC), 0x1000+16*n, 16)
	}
	if m, err := NewModule(AMD64, Section{sectionAt, s.b}, Section{}, noCode); m != nil || !errors.Is(err, errTooManyCommons) {
		t.Errorf("error %v", err)
	}
}

// TestMaxEntries has unreadable entries, which also count.
func TestMaxEntries(t *testing.T) {
	b := bytes.Repeat([]byte{4, 0, 0, 0, 1, 0, 0, 0}, maxEntries+1)
	if m, err := NewModule(AMD64, Section{sectionAt, b}, Section{}, noCode); m != nil || !errors.Is(err, errTooMany) {
		t.Errorf("error %v", err)
	}
}

// TestEntrySize has many unsorted entries and many rows. Each must take little memory.
func TestEntrySize(t *testing.T) {
	const entries, rows, most, mostOfRow = 100_000, 2, 40, 24 // bytes
	var s frameSection
	c := s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x80|amd64PC, 1)
	for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(entries) {
		s.function(c, 0x1000+16*uint64(n), 16, 0x44, 0x0e, 16)
	}
	var m *Module
	var table *Table
	var err error
	if n := allocated(func() { m, err = NewModule(AMD64, Section{sectionAt, s.b}, Section{}, noCode) }) / entries; err != nil || n > most {
		t.Errorf("error %v; an entry takes %d bytes, more than %d", err, n, most)
	}
	if !slices.IsSortedFunc(m.tables[0].entries, func(a, b entry) int { return int(int64(a.start - b.start)) }) {
		t.Error("the entries are not sorted")
	}
	n := allocated(func() { table, err = m.Compile(nil) })
	if err != nil || len(table.Rows) != entries*rows+1 || n > entries*rows*mostOfRow {
		t.Errorf("error %v; %d rows take %d bytes", err, len(table.Rows), n)
	}
}

// TestGaps has much code without entries. Compile must search only little of it for restorers.
func TestGaps(t *testing.T) {
	const between = 1 << 20
	var s frameSection
	c := s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x80|amd64PC, 1)
	for n := range uint64(100) {
		s.function(c, 0x1000+n*between, 16)
	}
	searched := uint64(0)
	m, err := NewModule(AMD64, Section{sectionAt, s.b}, Section{}, func(start, end uint64) ([]byte, error) {
		searched += end - start
		return nil, errors.New("there is no code")
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Compile([]Range{{0x1000, 1 << 40}}); err != nil || searched > maxSearchedAll || searched == 0 {
		t.Errorf("error %v; %d bytes are searched", err, searched)
	}
}

// TestMaxExcess looks up many rows of a function with very many instructions. They must be executed for only some of the rows.
func TestMaxExcess(t *testing.T) {
	const rows = 1000
	m := module(t, AMD64, false, append(make([]byte, 90_000), 0x0e, 16)...)
	found := 0
	for range rows {
		if m.row(inner, false) != nil {
			found++
		}
	}
	if steps := m.excess.Load() + rows*stepsPerRow; steps > moreSteps+rows*stepsPerRow+maxInstructions+10 || found == 0 || found == rows {
		t.Errorf("%d instructions were executed for %d rows, %d of which were found", steps, rows, found)
	}
	m = module(t, AMD64, false, 0x0e, 16)
	for n := range 100_000 {
		if m.row(inner, false) == nil {
			t.Fatalf("row %d is not found, though each takes few instructions", n)
		}
	}
}

// TestMaxSaved unwinds from many addresses in a function that saves all registers.
func TestMaxSaved(t *testing.T) {
	var instructions []byte
	for n := range byte(registerCount) {
		instructions = append(instructions, 0x80|n, 1)
	}
	m := module(t, AMD64, false, instructions...)
	u := New(AMD64)
	w := walk{Unwinder: u, sample: &Sample{Module: func(pc uint64) (*Module, uint64) { return m, pc - inner }}}
	for n := range uint64(2 * maxSaved / registerCount) {
		w.row(n)
		u.rows[rowKey{m, n}] = u.rows[rowKey{m, inner}] // as if it were of another address
		delete(u.rows, rowKey{m, inner})
		if u.saved > maxSaved+registerCount || u.saved < len(u.rows) {
			t.Fatalf("%d rules are kept, in %d rows", u.saved, len(u.rows))
		}
	}
}

// TestMaxSteps has a stack whose frames all have an expression of 500 steps.
func TestMaxSteps(t *testing.T) {
	expression := slices.Concat(bytes.Repeat([]byte{0x96}, 498), []byte{0x77, 8}) // nop; breg7 8
	instructions := slices.Concat([]byte{0x0f}, binary.AppendUvarint(nil, uint64(len(expression))), expression)
	m := module(t, AMD64, false, instructions...)
	stack := map[int]uint64{}
	for n := range 100 {
		stack[8*n] = bias + inner + uint64(n%8)
	}
	s := &Sample{Stack: words(1024, stack), Module: mapped(m)}
	s.Registers.Set(amd64PC, bias+inner)
	s.Registers.Set(amd64SP, sp)
	if chain, stop := New(AMD64).Unwind(nil, s, 100); len(chain) < 5 || len(chain) > 20 || stop != BrokenFrame {
		t.Errorf("%d frames, %s", len(chain), stop)
	}
}
