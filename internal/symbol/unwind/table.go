package unwind

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
)

// Table is what the call frame information of a file says, in rows that an unwinder in BPF can search: 8 bytes each, sorted.
type Table struct {
	Base  uint64 // address of the file that offsets count from
	Rows  []TableRow
	Rules []Rule // the first is the zero Rule

	Code          uint64 // bytes of code that it tells of
	Unknown       uint64 // bytes among them for which no Rule could be made
	Frames        uint64 // bytes in functions that move the stack pointer
	FramePointers uint64 // bytes among them in functions that find their frame by the frame pointer
}

// TableRow is for the code from its offset up to that of the next row. It is struct unwind_row of bpf/unwind.h.
type TableRow struct {
	Offset uint32
	Rule   uint32 // index
}

// Range is a range of addresses of a file.
type Range struct{ Start, End uint64 }

const (
	// maxTableRows bounds a table: 32 MiB, of a program with 300 MB of code.
	maxTableRows = 1 << 22

	// maxRules bounds the rules of a table: libLLVM 14 has 585.
	maxRules = 1 << 13

	// maxExecuted bounds the instructions that Compile executes: all entries of Chrome have less than 20 million.
	maxExecuted = 1 << 25

	// padding is what is between functions for their alignment. Nothing runs there, so that it needs no row.
	padding = 16

	// Bounds of the code without entries in which restorers are looked for, in bytes: of one part, and of all.
	maxSearched    = 1 << 20
	maxSearchedAll = 16 << 20
)

// ErrNoTables says that a file has no call frame information.
var ErrNoTables = errors.New("it has no call frame information")

// Compile makes a Table of .eh_frame, or where there is none of .debug_frame. What signal handlers return to is looked for in
// the code that they do not tell of.
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
			end = min(end, entries[i+1].start) // as find takes the one that starts last
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
	c.add(c.end, c.end, Rule{}) // the end of the last one
	if c.err == nil && len(c.table.Rows) == 0 {
		c.err = ErrNoTables
	}
	return c.table, c.err
}

// compiler makes a Table from its beginning to its end.
type compiler struct {
	arch    Arch
	table   *Table
	indexes map[Rule]uint32 // of rules
	end     uint64          // of the code that there are rows for
	err     error

	machine   machine
	common    uint32 // the entry whose initial state the machine has: its index and one more
	commonErr error  // of its instructions

	// Of the entry that is executed.
	at, limit           uint64 // up to which there are rows, and to which it goes
	rule                Rule   // of the machine's state
	frame, framePointer bool   // it has a frame, and finds it by the frame pointer
}

// add adds a row for a part of the code, which is behind all others.
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

// index returns the index of a rule, which is often that of the row before.
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

// fail ends the work, also in the midst of an entry.
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
		if n == cap(t.Rows) { // append would grow in smaller steps, and leave five times the memory to the garbage collector
			t.Rows = append(make([]TableRow, 0, min(max(2*n, 1024), maxTableRows)), t.Rows...)
		}
		t.Rows = append(t.Rows, TableRow{uint32(offset), rule})
	}
}

// function adds the rows of an entry, up to an end.
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

// begin puts the machine into the state in which an entry begins. That of entries with the same common information is made once.
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

// part adds rows for a part of the entry that is executed. Parts that go back, and those behind its end, have none.
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

// findRestorers finds what signal handlers return to in code that has no entries. As the return address is its first byte, which is
// looked for less one, each begins a byte before. And as it stands behind its last instruction while the kernel is at work for it, it ends a byte
// later.
func (m *Module) findRestorers(entries []entry, code []Range) (found []Range) {
	r := &restorers[m.arch]
	whole := append(r.number[:len(r.number):len(r.number)], r.call...)
	left := uint64(maxSearchedAll)
	for gap := range gaps(entries, code, uint64(len(whole))) {
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
			n := bytes.Index(b[at:], whole)
			if n < 0 {
				break
			}
			start := gap.Start + uint64(at+n)
			found = append(found, Range{max(start-1, gap.Start), min(start+uint64(len(whole))+1, gap.End)})
			at += n + len(whole)
		}
	}
	return found
}

// gaps returns the parts of the code that no entry covers and that have at least shortest bytes. The entries are sorted.
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
