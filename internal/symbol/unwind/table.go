package unwind

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
)

// Table is the call frame information of a file in rows that a BPF program can search: 8 bytes each, sorted.
type Table struct {
	Base  uint64 // the address that offsets are relative to
	Rows  []TableRow
	Rules []Rule // the first is the zero Rule

	Code          uint64 // bytes of code that the rows cover
	Unknown       uint64 // bytes of Code without a Rule
	Frames        uint64 // bytes of functions that move the stack pointer
	FramePointers uint64 // bytes of functions in Frames that use the frame pointer
}

// TableRow covers the code from its offset up to that of the next row. It is struct unwind_row of bpf/unwind.h.
type TableRow struct {
	Offset uint32
	Rule   uint32 // index in Rules
}

// Range is a range of addresses of a file.
type Range struct{ Start, End uint64 }

const (
	// maxTableRows limits the rows of a table to 32 MiB, for a program with 300 MB of code.
	maxTableRows = 1 << 22

	// maxRules limits the rules of a table. libLLVM 14 has 585.
	maxRules = 1 << 13

	// maxExecuted limits the instructions that Compile executes. All entries of Chrome have less than 20 million.
	maxExecuted = 1 << 25

	// padding is the smallest gap between functions that needs a row, in bytes. Smaller gaps align functions; nothing runs there.
	padding = 16

	// These limit the search for restorers in code without entries, in bytes: for one gap, and for all gaps.
	maxSearched    = 1 << 20
	maxSearchedAll = 16 << 20
)

// ErrNoTables reports a file without call frame information.
var ErrNoTables = errors.New("it has no call frame information")

// Compile returns the Table of .eh_frame, or of .debug_frame if there is no .eh_frame. In the code without entries it searches for
// restorers, which signal handlers return to.
func (m *Module) Compile(code []Range) (*Table, error) {
	c := compiler{arch: m.arch, table: &Table{Rules: make([]Rule, 1)}, indexes: map[Rule]uint32{{}: 0}}
	var entries []entry
	if len(m.tables) > 0 {
		c.machine.table = &m.tables[0]
		c.machine.moved = c.part
		entries = m.tables[0].entries
	}
	restorers := m.findRestorers(entries, code)
	for i := range entries {
		e := &entries[i]
		end := e.end()
		if i+1 < len(entries) {
			end = min(end, entries[i+1].start) // find prefers the entry that starts last
		}
		for len(restorers) > 0 && restorers[0].Start < e.start {
			c.add(restorers[0].Start, restorers[0].End, restorerRule(m.arch))
			restorers = restorers[1:]
		}
		if e.start < end {
			c.function(e, end)
		}
	}
	for _, r := range restorers {
		c.add(r.Start, r.End, restorerRule(m.arch))
	}
	c.add(c.end, c.end, Rule{}) // a row that ends the last function
	if c.err == nil && len(c.table.Rows) == 0 {
		c.err = ErrNoTables
	}
	return c.table, c.err
}

// compiler builds a Table from the first row to the last.
type compiler struct {
	arch    Arch
	table   *Table
	indexes map[Rule]uint32 // index in Rules
	end     uint64          // of the code with rows
	err     error

	machine   machine
	common    uint32 // 1 + the index of the common information entry whose initial state the machine has
	commonErr error  // from executing that entry

	// These are of the current entry.
	at, limit           uint64 // up to where there are rows, and the end of the entry
	rule                Rule   // for the machine's state
	frame, framePointer bool   // the function has a frame, and finds it by the frame pointer
}

// add adds a row for a range of code, which must be after all others.
func (c *compiler) add(start, end uint64, r Rule) {
	t := c.table
	if len(t.Rows) == 0 {
		if start == end {
			return
		}
		t.Base = start
	} else if start > c.end && start-c.end >= padding || start == end {
		c.row(c.end, 0)
	}
	c.row(start, c.index(r))
	c.end = max(end, c.end)
	t.Code += end - start
	if r == (Rule{}) {
		t.Unknown += end - start
	}
}

// index returns the index of a rule, which is often the rule of the previous row.
func (c *compiler) index(r Rule) uint32 {
	t := c.table
	if n := len(t.Rows); n > 0 && t.Rules[t.Rows[n-1].Rule] == r {
		return t.Rows[n-1].Rule
	}
	index, known := c.indexes[r]
	if known {
		return index
	}
	if len(t.Rules) == maxRules {
		c.fail(fmt.Errorf("its call frame information takes more than %d different rules", maxRules))
		return 0
	}
	index = uint32(len(t.Rules))
	c.indexes[r] = index
	t.Rules = append(t.Rules, r)
	return index
}

// fail records the first error and stops the compiler, even within an entry.
func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.machine.done = true
}

func (c *compiler) row(at uint64, rule uint32) {
	t := c.table
	offset, n := at-t.Base, len(t.Rows)
	switch {
	case n > 0 && t.Rows[n-1].Rule == rule:
	case offset > math.MaxUint32:
		c.fail(errors.New("its code is longer than 4 GiB"))
	case n == maxTableRows:
		c.fail(fmt.Errorf("its call frame information takes more than %d rows", maxTableRows))
	default:
		if n == cap(t.Rows) { // append would grow in smaller steps and leave five times as much garbage
			t.Rows = append(make([]TableRow, 0, min(max(2*n, 1024), maxTableRows)), t.Rows...)
		}
		t.Rows = append(t.Rows, TableRow{uint32(offset), rule})
	}
}

// function adds the rows of an entry, up to end.
func (c *compiler) function(e *entry, end uint64) {
	if c.err != nil {
		return
	}
	m := &c.machine
	c.at, c.limit, c.frame, c.framePointer = e.start, end, false, false
	err := c.begin(e)
	if err == nil {
		m.location, m.changed = e.start, true
		err = m.run(e.at, e.limit)
	}
	if err == nil {
		c.part(m.location, end)
	}
	if m.steps > maxExecuted {
		c.fail(fmt.Errorf("its call frame information has more than %d instructions", maxExecuted))
	}
	if c.at < end {
		c.add(c.at, end, Rule{})
	}
	if c.frame {
		c.table.Frames += end - e.start
	}
	if c.framePointer {
		c.table.FramePointers += end - e.start
	}
}

// begin sets the machine to the initial state of an entry. It computes the state only once for successive entries with the same common
// information entry.
func (c *compiler) begin(e *entry) error {
	m := &c.machine
	m.remembered = m.remembered[:0]
	if c.common == e.common+1 {
		m.state = m.initial
		return c.commonErr
	}
	m.state, m.initial = state{}, state{}
	m.common, m.target = m.table.commonOf(e), math.MaxUint64
	m.moved = nil
	c.common, c.commonErr = e.common+1, m.begin()
	m.moved = c.part
	return c.commonErr
}

// part adds rows for a range of the current entry. It ignores ranges that go backwards and those beyond the end of the entry.
func (c *compiler) part(from, to uint64) {
	to = min(to, c.limit)
	if from != c.at || to <= from {
		return
	}
	c.at = to
	if m := &c.machine; m.changed {
		c.rule, m.changed = m.compile(c.arch), false
	}
	r := &c.rule
	c.add(from, to, *r)
	c.frame = c.frame || r.CFA == AtFP || r.CFA == AtSP && r.CFAOffset > 8
	c.framePointer = c.framePointer || r.CFA&^Loaded == AtFP
}

// findRestorers returns the restorers in code without entries. The return address of a handler is the restorer's first byte, and lookups
// subtract one, so each range starts one byte early. While the kernel executes the system call, the program counter is after the last
// instruction, so each range ends one byte late.
func (m *Module) findRestorers(entries []entry, code []Range) (found []Range) {
	restorer := restorers[m.arch].code
	left := uint64(maxSearchedAll)
	for gap := range gaps(entries, code, uint64(len(restorer))) {
		size := gap.End - gap.Start
		if size > maxSearched || size > left {
			continue
		}
		left -= size
		b, err := m.code(gap.Start, gap.End)
		if err != nil {
			continue // a segment can be longer in memory than in the file
		}
		for at := 0; ; {
			n := bytes.Index(b[at:], restorer)
			if n < 0 {
				break
			}
			start := gap.Start + uint64(at+n)
			found = append(found, Range{max(start-1, gap.Start), min(start+uint64(len(restorer))+1, gap.End)})
			at += n + len(restorer)
		}
	}
	return found
}

// gaps yields the parts of the code that no entry covers and that have at least shortest bytes. The entries must be sorted.
func gaps(entries []entry, code []Range, shortest uint64) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for _, part := range code {
			at := part.Start
			for i := range entries {
				e := &entries[i]
				if e.end() <= at {
					continue
				}
				if e.start >= part.End {
					break
				}
				if e.start >= at+shortest && !yield(Range{at, e.start}) {
					return
				}
				at = e.end()
			}
			if part.End >= at+shortest && !yield(Range{at, part.End}) {
				return
			}
		}
	}
}
