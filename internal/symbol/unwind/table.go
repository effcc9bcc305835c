package unwind

import (
	"bytes"
	"errors"
	"fmt"
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
	// MaxRows bounds a table: 32 MiB, of a program with 300 MB of code.
	MaxRows = 1 << 22

	// maxExecuted bounds the instructions that Compile executes: all entries of Chrome have less than 20 million.
	maxExecuted = 1 << 25

	// padding is what is between functions for their alignment. Nothing runs there, so that it needs no row.
	padding = 16

	// maxSearched bounds the code in which restorers are looked for where a file has no tables.
	maxSearched = 1 << 20
)

// ErrNoTables says that a file has no call frame information.
var ErrNoTables = errors.New("it has no call frame information")

// Compile makes a Table of .eh_frame, or where there is none of .debug_frame. What signal handlers return to is looked for in
// the code that they do not tell of.
func (m *Module) Compile(code []Range) (*Table, error) {
	c := compiler{arch: m.arch, table: &Table{Rules: make([]Rule, 1)}, indexes: map[Rule]uint32{{}: 0}}
	var entries []entry
	if len(m.tables) > 0 {
		entries = m.tables[0].entries
	}
	restorers := m.findRestorers(entries, code)
	for i := range entries {
		e := &entries[i]
		end := e.end
		if i+1 < len(entries) {
			end = min(end, entries[i+1].start) // as find takes the one that starts last
		}
		for len(restorers) > 0 && restorers[0].Start < e.start {
			c.add(restorers[0].Start, restorers[0].End, restorerRule(m.arch))
			restorers = restorers[1:]
		}
		if e.start < end {
			c.function(&m.tables[0], e, end)
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
	steps   int             // instructions that were executed
	err     error
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
	index, known := c.indexes[r]
	if !known {
		index = uint32(len(t.Rules))
		c.indexes[r] = index
		t.Rules = append(t.Rules, r)
	}
	c.row(start, index)
	c.end = max(end, c.end)
	t.Code += end - start
	if r == (Rule{}) {
		t.Unknown += end - start
	}
}

func (c *compiler) row(at uint64, rule uint32) {
	t := c.table
	offset, n := at-t.Base, len(t.Rows)
	switch {
	case n > 0 && t.Rows[n-1].Rule == rule:
	case offset > math.MaxUint32:
		c.err = errors.New("its code is longer than 4 GiB")
	case n == MaxRows:
		c.err = fmt.Errorf("its call frame information takes more than %d rows", MaxRows)
	default:
		t.Rows = append(t.Rows, TableRow{uint32(offset), rule})
	}
}

// function adds the rows of an entry, up to an end.
func (c *compiler) function(t *table, e *entry, end uint64) {
	if c.err != nil {
		return
	}
	at := e.start // up to which there are rows
	frame, framePointer := false, false
	m := machine{common: e.common, table: t, location: e.start, target: math.MaxUint64}
	part := func(from, to uint64) {
		to = min(to, end)
		if from != at || to <= from { // one of those that go back
			return
		}
		at = to
		r := m.compile(c.arch)
		c.add(from, to, r)
		frame = frame || r.CFA == AtFP || r.CFA == AtSP && r.CFAOffset > 8
		framePointer = framePointer || r.CFA&^Loaded == AtFP
	}
	err := m.run(e.common.instructions, e.common.position)
	if err == nil {
		m.initial, m.moved = m.state, part
		err = m.run(t.section.Data[e.at:e.limit], t.section.Address+uint64(e.at))
	}
	if err == nil {
		part(m.location, end)
	}
	if c.steps += m.steps; c.steps > maxExecuted && c.err == nil {
		c.err = fmt.Errorf("its call frame information has more than %d instructions", maxExecuted)
	}
	if at < end {
		c.add(at, end, Rule{})
	}
	if frame {
		c.table.Frames += end - e.start
	}
	if framePointer {
		c.table.FramePointers += end - e.start
	}
}

// findRestorers finds what signal handlers return to in code that has no entries. As the return address is its first byte, which is
// looked for less one, each begins a byte before. And as it stands behind its last instruction while the kernel is at work for it, it ends a byte
// later.
func (m *Module) findRestorers(entries []entry, code []Range) (found []Range) {
	for _, gap := range gaps(entries, code) {
		if len(entries) == 0 && gap.End-gap.Start > maxSearched {
			continue
		}
		b, err := m.code(gap.Start, gap.End)
		if err != nil {
			continue // a segment can be longer in memory than in the file
		}
		r := &restorers[m.arch]
		whole := uint64(len(r.number) + len(r.call))
		for at := 0; ; {
			n := bytes.Index(b[at:], append(r.number[:len(r.number):len(r.number)], r.call...))
			if n < 0 {
				break
			}
			start := gap.Start + uint64(at+n)
			found = append(found, Range{max(start-1, gap.Start), min(start+whole+1, gap.End)})
			at += n + int(whole)
		}
	}
	return found
}

// gaps are the parts of the code that entries, which are sorted, do not tell of, where they are long enough for a restorer.
func gaps(entries []entry, code []Range) (gaps []Range) {
	const shortest = 8
	for _, part := range code {
		at := part.Start
		for i := range entries {
			e := &entries[i]
			if e.end <= at {
				continue
			}
			if e.start >= part.End {
				break
			}
			if e.start >= at+shortest {
				gaps = append(gaps, Range{at, e.start})
			}
			at = e.end
		}
		if part.End >= at+shortest {
			gaps = append(gaps, Range{at, part.End})
		}
	}
	return gaps
}
