package dwarf

import (
	"cmp"
	"math"
	"path"
	"slices"
)

// lineTable is the line table of a unit. It builds file names on demand.
type lineTable struct {
	reader    *reader
	unit      *unit
	dirs      []value
	files     []lineFile
	named     map[uint32]string
	rows      []row // of all sequences in turn
	sequences spans // with indexes in bounds
	bounds    []bounds
}

// bounds are the rows of a sequence: from first up to, but not including, last.
type bounds struct {
	first, last int32
}

type lineFile struct {
	name value
	dir  uint32
}

type row struct {
	addr      uint32 // relative to the start of the sequence
	file      uint32
	line      uint32
	column    uint16
	statement bool
}

func (t *lineTable) size() int {
	return 24*(len(t.dirs)+len(t.files)) + 16*len(t.rows) + 32*len(t.sequences)
}

// find returns the source line of the code at addr.
func (t *lineTable) find(addr uint64) (file string, line, column int) {
	rows, _, _ := t.rowsFrom(addr)
	if len(rows) == 0 {
		return "", 0, 0
	}
	r := rows[0]
	return t.file(r.file), int(r.line), int(r.column)
}

// rowsFrom returns the row that contains addr and the rows after it in its sequence. start and end are the addresses of the sequence.
func (t *lineTable) rowsFrom(addr uint64) (rows []row, start, end uint64) {
	s, ok := t.sequences.findSpan(addr)
	if !ok {
		return nil, 0, 0
	}
	b := t.bounds[s.index]
	rows = t.rows[b.first:b.last]
	at, _ := slices.BinarySearchFunc(rows, addr-s.lo, func(r row, addr uint64) int {
		if uint64(r.addr) <= addr {
			return -1
		}
		return 1
	})
	return rows[max(at-1, 0):], s.lo, s.hi
}

// file returns the name of the file with the given number. It is absolute if the unit names its compilation directory.
func (t *lineTable) file(number uint32) string {
	if name, ok := t.named[number]; ok {
		return name
	}
	name := t.join(number)
	t.named[number] = name
	return name
}

func (t *lineTable) join(number uint32) string {
	if uint64(number) >= uint64(len(t.files)) {
		return ""
	}
	f := t.files[number]
	name := t.reader.text(t.unit, f.name)
	if name == "" || path.IsAbs(name) {
		return name
	}
	dir := ""
	if uint64(f.dir) < uint64(len(t.dirs)) {
		dir = t.reader.text(t.unit, t.dirs[f.dir])
	}
	if !path.IsAbs(dir) {
		dir = path.Join(t.reader.text(t.unit, t.unit.compDir), dir)
	}
	return path.Join(dir, name)
}

// These are the opcodes of line programs: DWARF 5, 7.22.
const (
	lnsExtended       = 0x00 // precedes an extended opcode; the standard does not name it
	lnsCopy           = 0x01
	lnsAdvancePC      = 0x02
	lnsAdvanceLine    = 0x03
	lnsSetFile        = 0x04
	lnsSetColumn      = 0x05
	lnsNegateStmt     = 0x06
	lnsConstAddPC     = 0x08 // 0x07, set_basic_block, is skipped
	lnsFixedAdvancePC = 0x09

	lneEndSequence = 0x01
	lneSetAddress  = 0x02
	lneDefineFile  = 0x03

	lnctPath           = 0x01
	lnctDirectoryIndex = 0x02
)

// program is a line program while it runs.
type program struct {
	Cursor
	encoding
	table          *lineTable
	minInstruction uint64
	defaultIsStmt  bool
	lineBase       int8
	lineRange      uint8
	opcodeBase     uint8
	operands       [256]uint8
	row            state
	sequence       []state // the rows of the current sequence
}

// state holds the registers of the machine that runs line programs.
type state struct {
	addr uint64
	row
}

func (r *reader) lineTable(u *unit) *lineTable {
	t := &lineTable{reader: r, unit: u, named: make(map[uint32]string)}
	if u.stmtList.kind == none {
		return t
	}
	p := &program{Cursor: r.cursor(&r.s.Line), encoding: u.encoding, table: t}
	p.At(u.stmtList.n)
	if !p.header() {
		return t
	}
	p.reset()
	for !p.Done() {
		p.step()
	}
	t.rows = slices.Clone(t.rows) // drop spare capacity
	t.sequences.sort()
	return t
}

// header reads the header, moves the cursor to the start of the program, and limits it to the end of the program.
func (p *program) header() bool {
	length, offsetSize := p.UnitLength()
	if p.bad || length > p.Left() {
		return false
	}
	p.Limit(uint64(p.off) + length)
	p.offsetSize = uint8(offsetSize)
	p.version = uint16(p.Uint(2))
	if p.version < 2 || p.version > 5 {
		return false
	}
	if p.version >= 5 {
		p.addrSize = p.U8()
		p.U8() // the size of segment selectors
	}
	headerLength := p.Uint(offsetSize)
	start := uint64(p.off) + headerLength
	p.minInstruction = uint64(p.U8())
	if p.version >= 4 {
		p.U8() // operations per instruction: more than one only on machines that Linux no longer supports
	}
	p.defaultIsStmt = p.U8() != 0
	p.lineBase = int8(p.U8())
	p.lineRange = p.U8()
	p.opcodeBase = p.U8()
	for i := 1; i < int(p.opcodeBase); i++ {
		p.operands[i] = p.U8()
	}
	if p.bad || p.lineRange == 0 || headerLength > uint64(p.end) {
		return false
	}
	if p.version >= 5 {
		p.names5()
	} else {
		p.names()
	}
	if p.bad {
		return false
	}
	p.At(start)
	return !p.bad
}

// names reads the directories and files of versions up to 4. Directory 0 is the compilation directory.
func (p *program) names() {
	t := p.table
	t.dirs = append(t.dirs, t.unit.compDir)
	for !p.bad {
		v := p.inlineString()
		if v.kind == none {
			break
		}
		t.dirs = append(t.dirs, v)
	}
	t.files = append(t.files, lineFile{name: t.unit.name})
	for !p.bad {
		v := p.inlineString()
		if v.kind == none {
			break
		}
		p.addFile(v)
	}
}

// inlineString reads a string in .debug_line. It returns no value for an empty string.
func (p *program) inlineString() value {
	at := uint64(p.off)
	p.skipString()
	if uint64(p.off) == at+1 || p.bad {
		return value{}
	}
	return value{at, lineInline}
}

func (p *program) addFile(name value) {
	dir := p.Uleb()
	p.Uleb() // time
	p.Uleb() // size
	p.table.files = append(p.table.files, lineFile{name, uint32(min(dir, 1<<32-1))})
}

// names5 reads the directories and files of version 5, which describes their format.
func (p *program) names5() {
	p.entries(func(f lineFile) { p.table.dirs = append(p.table.dirs, f.name) })
	p.entries(func(f lineFile) { p.table.files = append(p.table.files, f) })
}

func (p *program) entries(add func(lineFile)) {
	type format struct{ content, form uint64 }
	formats := make([]format, p.U8())
	for i := range formats {
		formats[i] = format{p.Uleb(), p.Uleb()}
	}
	count := p.Uleb()
	for range count {
		before := p.off
		var f lineFile
		for _, format := range formats {
			v := p.value(format.form, p.encoding, 0)
			switch format.content {
			case lnctPath:
				if f.name = v; v.kind == inline {
					f.name.kind = lineInline
				}
			case lnctDirectoryIndex:
				f.dir = uint32(min(v.n, 1<<32-1))
			}
		}
		if p.bad || p.off == before { // entries without bytes could repeat for ever
			return
		}
		add(f)
	}
}

func (p *program) reset() {
	p.row = state{row: row{file: 1, line: 1, statement: p.defaultIsStmt}}
	p.sequence = p.sequence[:0]
}

func (p *program) emit() {
	p.sequence = append(p.sequence, p.row)
}

// step executes one opcode.
func (p *program) step() {
	opcode := p.U8()
	if opcode >= p.opcodeBase {
		adjusted := opcode - p.opcodeBase
		p.row.addr += uint64(adjusted/p.lineRange) * p.minInstruction
		p.row.line += uint32(int(p.lineBase) + int(adjusted%p.lineRange))
		p.emit()
		return
	}
	switch opcode {
	case lnsExtended:
		p.extended()
	case lnsCopy:
		p.emit()
	case lnsAdvancePC:
		p.row.addr += p.Uleb() * p.minInstruction
	case lnsAdvanceLine:
		p.row.line += uint32(p.Sleb())
	case lnsSetFile:
		p.row.file = uint32(p.Uleb())
	case lnsSetColumn:
		p.row.column = uint16(min(p.Uleb(), 1<<16-1))
	case lnsNegateStmt:
		p.row.statement = !p.row.statement
	case lnsConstAddPC:
		p.row.addr += uint64((255-p.opcodeBase)/p.lineRange) * p.minInstruction
	case lnsFixedAdvancePC:
		p.row.addr += p.Uint(2)
	default:
		for range p.operands[opcode] {
			p.Uleb()
		}
	}
}

func (p *program) extended() {
	length := p.Uleb()
	if p.bad || length == 0 || length > p.Left() {
		p.fail()
		return
	}
	end := uint64(p.off) + length
	switch p.U8() {
	case lneEndSequence:
		p.endSequence()
	case lneSetAddress:
		if size := length - 1; size <= 8 {
			p.row.addr = p.Cursor.Uint(int(size))
		}
	case lneDefineFile:
		if v := p.inlineString(); v.kind != none {
			p.addFile(v)
		}
	}
	p.At(end)
}

// endSequence turns the rows since the last sequence into a new one, unless the linker discarded their code.
func (p *program) endSequence() {
	t := p.table
	rows, end := p.sequence, p.row.addr
	byAddr := func(a, b state) int { return cmp.Compare(a.addr, b.addr) }
	if !slices.IsSortedFunc(rows, byAddr) {
		slices.SortStableFunc(rows, byAddr)
	}
	if len(rows) > 0 && isCode(rows[0].addr, end) && end-rows[0].addr <= math.MaxUint32 {
		start := rows[0].addr
		t.sequences = append(t.sequences, span{start, end, int32(len(t.bounds))})
		first := int32(len(t.rows))
		for _, r := range rows {
			r.row.addr = uint32(min(r.addr-start, math.MaxUint32))
			t.rows = append(t.rows, r.row)
		}
		t.bounds = append(t.bounds, bounds{first, int32(len(t.rows))})
	}
	p.reset()
}
