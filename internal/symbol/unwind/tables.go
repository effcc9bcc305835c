package unwind

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/bperf/bperf/internal/symbol/dwarf"
)

// Section is the contents of a section, and its address in the file.
type Section struct {
	Address uint64
	Data    []byte
}

// Module is the call frame information of a file (DWARF 5, 6.4; .eh_frame: Linux Standard Base, Core, 10.6). It is safe for concurrent use.
type Module struct {
	arch   Arch
	tables []table
	code   func(start, end uint64) ([]byte, error)
	excess atomic.Int64 // instructions executed for rows, minus stepsPerRow for each row
}

// table is a section and its entries.
type table struct {
	section Section
	eh      bool
	commons []common
	entries []entry // sorted by start, then by position in the section
}

// entry is a frame description entry: a range of code and its instructions. It has 24 bytes and no pointers, because there can be many.
type entry struct {
	start     uint64
	size      uint32
	common    uint32 // index in commons
	at, limit uint32 // offsets of its instructions in the section
}

func (e *entry) end() uint64 { return e.start + uint64(e.size) }

// common is a common information entry.
type common struct {
	code      uint64 // code alignment factor
	data      int64  // data alignment factor
	ra        uint64 // column of the return address
	at, limit uint32 // offsets of its instructions in the section
	encoding  uint8  // of pointers
	augmented bool   // its entries have augmentation data, with a length
	signal    bool   // signal handlers return to this code
}

func (t *table) commonOf(e *entry) *common { return &t.commons[e.common] }

// NewModule returns the Module of a file with the sections .eh_frame and .debug_frame, either of which may be empty. The Module refers to
// them. If NewModule cannot read some entries, it skips them and returns an error about the first of them together with a usable Module.
// The Module is nil if a section has more entries than a program can have.
//
// The function code returns the file's code between two addresses. It is called for code without tables, to recognize restorers, which
// signal handlers return to: those of some C libraries and vDSOs have no tables. It may be called concurrently.
func NewModule(arch Arch, ehFrame, debugFrame Section, code func(start, end uint64) ([]byte, error)) (*Module, error) {
	m := &Module{arch: arch, code: code}
	var errs []error
	for _, t := range []table{{section: ehFrame, eh: true}, {section: debugFrame}} {
		if len(t.section.Data) == 0 {
			continue
		}
		err := t.scan()
		if errors.Is(err, errTooMany) {
			return nil, err
		}
		errs = append(errs, err)
		m.tables = append(m.tables, t)
	}
	return m, errors.Join(errs...)
}

func (t *table) name() string {
	if t.eh {
		return ".eh_frame"
	}
	return ".debug_frame"
}

// Chrome has less than a million entries. Linkers merge identical common information entries, except in .debug_frame, where each
// compilation unit has its own.
const (
	maxEntries = 1 << 20
	maxCommons = 1 << 17
)

var (
	errTooMany        = fmt.Errorf("it has more than %d entries", maxEntries)
	errTooManyCommons = fmt.Errorf("%w: its entries refer to more than %d common ones", errTooMany, maxCommons)
)

// scan reads all entries.
func (t *table) scan() error {
	if int64(len(t.section.Data)) > 1<<32-1 {
		return fmt.Errorf("%s has %d bytes, more than 4 GiB", t.name(), len(t.section.Data))
	}
	count := 0
	first := t.each(func(uint64, dwarf.Cursor, int) error {
		if count++; count > maxEntries {
			return errTooMany
		}
		return nil
	})
	if errors.Is(first, errTooMany) {
		return first
	}
	t.entries = make([]entry, 0, count) // growing would take more than twice the memory
	var bad error
	known := make(map[uint64]uint32) // index in commons by offset
	err := t.each(func(at uint64, body dwarf.Cursor, offsetSize int) error {
		e, err := t.entry(&body, offsetSize, known)
		switch {
		case errors.Is(err, errTooMany):
			return err
		case err == nil && e.size > 0:
			t.entries = append(t.entries, e)
		case err != nil && bad == nil:
			bad = fmt.Errorf("%s: the entry at byte %#x: %w", t.name(), at, err)
		}
		return nil
	})
	if errors.Is(err, errTooMany) {
		return err
	}
	order := func(a, b entry) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.at, b.at)
	}
	if !slices.IsSortedFunc(t.entries, order) {
		slices.SortFunc(t.entries, order)
	}
	return cmp.Or(bad, err)
}

// each calls yield with each entry of the section, until yield returns an error: its offset, a cursor after its length, and the size of
// offsets in it.
func (t *table) each(yield func(at uint64, body dwarf.Cursor, offsetSize int) error) error {
	c := dwarf.NewCursor(t.section.Data)
	for !c.Done() {
		at := c.Offset()
		length, offsetSize := c.UnitLength()
		if length == 0 && t.eh {
			continue // a terminator; where sections were joined, more can follow
		}
		body := c
		if c.Skip(length); c.Bad() {
			return fmt.Errorf("%s: the entry at byte %#x is longer than the section", t.name(), at)
		}
		body.Limit(c.Offset())
		if err := yield(at, body, offsetSize); err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
	}
	return nil
}

// pointerToCommon reads the field that distinguishes the two kinds of entries. offset is that of the common information entry; own is true
// if this is one itself.
func (t *table) pointerToCommon(body *dwarf.Cursor, offsetSize int) (offset uint64, own bool) {
	at := body.Offset()
	id := body.Uint(offsetSize)
	if t.eh {
		return at - id, id == 0
	}
	return id, id == ^uint64(0)>>(64-8*offsetSize)
}

// unreadable is the index of a common information entry that could not be read.
const unreadable = 1<<32 - 1

// entry reads an entry. The range of a common information entry is empty.
func (t *table) entry(body *dwarf.Cursor, offsetSize int, commons map[uint64]uint32) (entry, error) {
	offset, own := t.pointerToCommon(body, offsetSize)
	if own {
		return entry{}, nil // read when needed
	}
	index, known := commons[offset]
	if !known {
		if len(commons) == maxCommons {
			return entry{}, errTooManyCommons
		}
		shared, err := t.common(offset)
		if err != nil {
			commons[offset] = unreadable
			return entry{}, err
		}
		index = uint32(len(t.commons))
		commons[offset] = index
		t.commons = append(t.commons, shared)
	}
	if index == unreadable {
		return entry{}, errCommon
	}
	shared := &t.commons[index]
	start, ok := t.pointer(body, shared.encoding)
	length, ok2 := t.pointer(body, shared.encoding&peFormat) // of the same size, but absolute
	if !ok || !ok2 || body.Bad() {
		return entry{}, fmt.Errorf("addresses in encoding %#x cannot be read", shared.encoding)
	}
	if shared.augmented {
		body.Skip(body.Uleb())
	}
	if body.Bad() {
		return entry{}, errShort
	}
	if start+length < start || length > math.MaxUint32 {
		return entry{}, fmt.Errorf("%#x bytes at %#x end beyond the last address, or are more than 4 GiB", length, start)
	}
	return entry{start, uint32(length), index, uint32(body.Offset()), uint32(body.Offset() + body.Left())}, nil
}

var (
	errCommon = errors.New("its common information cannot be read")
	errShort  = errors.New("it ends too early")
)

// maxAugmentation limits augmentation strings, in bytes, so that reading many long ones takes no more time than reading the section.
const maxAugmentation = 64

// common reads the common information entry at an offset.
func (t *table) common(offset uint64) (info common, err error) {
	if offset >= uint64(len(t.section.Data)) {
		return info, fmt.Errorf("its common information is at %#x, beyond the section", offset)
	}
	c := dwarf.NewCursor(t.section.Data)
	c.At(offset)
	length, offsetSize := c.UnitLength()
	if c.Bad() || length > c.Left() {
		return info, fmt.Errorf("its common information at %#x is longer than the section", offset)
	}
	c.Limit(c.Offset() + length)
	if _, own := t.pointerToCommon(&c, offsetSize); !own {
		return info, fmt.Errorf("there is no common information at %#x", offset)
	}
	version := c.U8()
	if version != 1 && version != 3 && version != 4 {
		return info, fmt.Errorf("common information at %#x has the unknown version %d", offset, version)
	}
	augmentation := c.Text(maxAugmentation)
	if version == 4 && (c.U8() != 8 || c.U8() != 0) {
		return info, fmt.Errorf("common information at %#x is for addresses of another size than 8 bytes, or with segments", offset)
	}
	info = common{code: c.Uleb(), data: c.Sleb()}
	if version == 1 {
		info.ra = uint64(c.U8())
	} else {
		info.ra = c.Uleb()
	}
	if err := t.augment(&info, &c, augmentation); err != nil {
		return info, fmt.Errorf("common information at %#x: %w", offset, err)
	}
	if c.Bad() {
		return info, fmt.Errorf("common information at %#x ends too early", offset)
	}
	info.at, info.limit = uint32(c.Offset()), uint32(c.Offset()+c.Left())
	return info, nil
}

// augment reads the augmentation data that an augmentation string describes (Linux Standard Base, Core, 10.6.1.1.1).
func (t *table) augment(info *common, c *dwarf.Cursor, augmentation string) error {
	if augmentation == "" {
		return nil
	}
	if augmentation[0] != 'z' {
		return fmt.Errorf("unknown augmentation %.20q", augmentation)
	}
	info.augmented = true
	size := c.Uleb()
	if size > c.Left() {
		return errors.New("augmentation data end beyond it")
	}
	after := c.Offset() + size
	for _, letter := range augmentation[1:] {
		switch letter {
		case 'L':
			c.U8() // encoding of the pointers to language-specific data, which bperf skips
		case 'R':
			info.encoding = c.U8()
		case 'P':
			t.pointer(c, c.U8())
		case 'S':
			info.signal = true
		case 'B', 'G': // return addresses are signed with key B; memory is tagged (arm64)
		default: // the rest cannot be interpreted
			c.At(after)
			return nil
		}
	}
	if c.Offset() > after {
		return errors.New("augmentation data are longer than they say")
	}
	c.At(after)
	return nil
}

// These are the encodings of pointers: DW_EH_PE_* of the Linux Standard Base, Core, 10.5.1. An encoding combines a format in the low four
// bits with what the pointer is relative to. The standard has no name for the flag of pointers to pointers; GNU calls it indirect.
const (
	peAbsptr  = 0x00
	peUleb128 = 0x01
	peUdata2  = 0x02
	peUdata4  = 0x03
	peUdata8  = 0x04
	peSleb128 = 0x09
	peSdata2  = 0x0a
	peSdata4  = 0x0b
	peSdata8  = 0x0c
	peFormat  = 0x0f // mask

	pePcrel    = 0x10 // relative to its own address
	peRelative = 0x70 // mask

	peIndirect = 0x80
	peOmit     = 0xff
)

// pointer reads an encoded pointer. It supports absolute pointers and those relative to their own address; code needs no others.
func (t *table) pointer(c *dwarf.Cursor, encoding uint8) (v uint64, ok bool) {
	if encoding == peOmit {
		return 0, true
	}
	position := t.section.Address + c.Offset()
	switch encoding & peFormat {
	case peAbsptr, peUdata8, peSdata8:
		v = c.Uint(8)
	case peUleb128:
		v = c.Uleb()
	case peUdata2:
		v = c.Uint(2)
	case peUdata4:
		v = c.Uint(4)
	case peSleb128:
		v = uint64(c.Sleb())
	case peSdata2:
		v = uint64(int64(int16(c.Uint(2))))
	case peSdata4:
		v = uint64(int64(int32(c.Uint(4))))
	default:
		return 0, false
	}
	switch encoding & peRelative {
	case peAbsptr:
	case pePcrel:
		v += position
	default:
		return v, false
	}
	return v, encoding&peIndirect == 0
}

// find returns the entry for an address of the file, or nil.
func (m *Module) find(address uint64) (*table, *entry) {
	for i := range m.tables {
		t := &m.tables[i]
		n := sort.Search(len(t.entries), func(n int) bool { return t.entries[n].start > address })
		if n > 0 && address < t.entries[n-1].end() {
			return t, &t.entries[n-1]
		}
	}
	return nil, nil
}
