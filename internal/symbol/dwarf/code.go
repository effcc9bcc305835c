package dwarf

import (
	"github.com/bperf/bperf/internal/symbol"
)

// code is the parsed part of a unit: its functions, those inlined into them, and its lines.
type code struct {
	unit      *unit
	scopes    []scope         // in the order of their entries: a scope comes before the scopes within it
	ranges    []span          // of inlined functions; each scope has a part
	functions spans           // with indexes in scopes
	lines     *lineTable      // nil until needed
	names     map[uint64]name // of functions, by the offset of their entry
}

// scope is a function or an inlined call of one.
type scope struct {
	die                            uint64 // offset of the entry
	parent                         int32  // the scope that it is inlined into, or -1
	last                           int32  // the last scope within it
	firstRange, lastRange          int32  // for an inlined function
	callFile, callLine, callColumn uint32
}

type name struct {
	text string
	line int
}

const (
	maxDepth  = 256 // of nested inlined functions
	maxNested = 512 // of nested entries
)

// size returns the approximate size of c without lines, in bytes.
func (c *code) size() int {
	return 256 + 40*len(c.scopes) + 24*(len(c.ranges)+len(c.functions))
}

func (d *Data) linesOf(c *code) *lineTable {
	if c.lines == nil {
		c.lines = d.reader.lineTable(c.unit)
		d.cost += c.lines.size()
	}
	return c.lines
}

// parse reads a unit. Of a broken unit it keeps what it could read.
func (d *Data) parse(u *unit) *code {
	code := &code{unit: u, names: make(map[uint64]name)}
	table := d.reader.abbrevTable(u.abbrev)
	budget := d.reader.rangesOf(u.end - u.off)

	c := d.reader.unitCursor(u)
	c.At(u.root)
	within := []int32{-1} // the enclosing scope, for each level of entries
	var e entry
	for !c.Done() && len(within) > 0 {
		die := uint64(c.off)
		number := c.Uleb()
		if number == 0 {
			within = within[:len(within)-1]
			continue
		}
		at, ok := table.find(number)
		if !ok {
			break
		}
		d.reader.read(&c, u, at, &e)
		if c.bad {
			break
		}
		inside := within[len(within)-1]
		switch e.tag {
		case tagSubprogram:
			inside = d.addFunction(code, die, &e, &budget)
		case tagInlinedSubroutine:
			if i := d.addInlined(code, die, inside, &e, &budget); i >= 0 {
				inside = i
			}
		}
		if !e.hasChildren {
			continue
		}
		if len(within) == maxNested {
			break
		}
		within = append(within, inside)
	}
	code.closeScopes()
	code.functions.sort()
	return code
}

// addFunction adds a function and returns its scope. It returns -1 if the function has no code of its own: a declaration, or a function
// that is only inlined.
func (d *Data) addFunction(c *code, die uint64, e *entry, budget *int) int32 {
	i := int32(len(c.scopes))
	before := len(c.functions)
	d.reader.eachRange(c.unit, e, budget, func(lo, hi uint64) {
		c.functions = append(c.functions, span{lo, hi, i})
	})
	if len(c.functions) == before {
		return -1
	}
	c.scopes = append(c.scopes, scope{die: die, parent: -1, last: i})
	return i
}

// addInlined adds a function that is inlined into the scope parent, and returns its scope. It returns -1 if parent is -1.
func (d *Data) addInlined(c *code, die uint64, parent int32, e *entry, budget *int) int32 {
	if parent < 0 {
		return -1
	}
	i := int32(len(c.scopes))
	first := int32(len(c.ranges))
	d.reader.eachRange(c.unit, e, budget, func(lo, hi uint64) {
		c.ranges = append(c.ranges, span{lo, hi, i})
	})
	c.scopes = append(c.scopes, scope{
		die: die, parent: parent, last: i,
		firstRange: first, lastRange: int32(len(c.ranges)),
		callFile: uint32(e.callFile.n), callLine: uint32(e.callLine.n), callColumn: uint32(e.callColumn.n),
	})
	return i
}

// closeScopes sets the last scope within each scope.
func (c *code) closeScopes() {
	for i := len(c.scopes) - 1; i >= 0; i-- {
		if s := &c.scopes[i]; s.parent >= 0 {
			outer := &c.scopes[s.parent]
			outer.last = max(outer.last, s.last)
		}
	}
}

// scopeAt returns the innermost scope that contains addr, or -1.
func (c *code) scopeAt(addr uint64) int32 {
	i, ok := c.functions.find(addr)
	if !ok {
		return -1
	}
	innermost := i
	for j := i + 1; j <= c.scopes[i].last; j++ {
		s := &c.scopes[j]
		for _, r := range c.ranges[s.firstRange:s.lastRange] {
			if r.lo <= addr && addr < r.hi {
				innermost = j
				break
			}
		}
	}
	return innermost
}

// function returns the name of the function at an entry, and the line of its declaration.
func (d *Data) function(c *code, die uint64) (string, int) {
	if n, ok := c.names[die]; ok {
		return n.text, n.line
	}
	var n name
	d.reader.describe(c.unit, die, &n, maxReferences)
	c.names[die] = n
	return n.text, n.line
}

// maxReferences limits how many entries are searched for a name: from an inlined function to its abstract entry, and on to its declaration.
const maxReferences = 8

// describe fills in the missing fields of n from an entry and the entries that it refers to.
func (r *reader) describe(u *unit, die uint64, n *name, depth int) {
	var e entry
	if u == nil || depth == 0 || !r.readAt(u, die, &e) {
		return
	}
	if n.line == 0 {
		n.line = int(uint32(e.declLine.n))
	}
	linkage := r.text(u, e.linkageName)
	if linkage != "" {
		n.text = linkage
		if !r.s.Mangled {
			n.text = symbol.Demangle(linkage)
		}
		return
	}
	plain := r.text(u, e.name)
	for _, to := range []value{e.origin, e.specification} {
		switch to.kind {
		case reference:
			r.describe(r.unitNear(u, to.n), to.n, n, depth-1)
		case refSup:
			if r.sup != nil {
				r.sup.describe(r.sup.unitOf(to.n), to.n, n, depth-1)
			}
		}
	}
	if n.text == "" {
		n.text = plain
	}
}

// unitNear returns the unit that contains an offset. That is usually u, the unit with the reference.
func (r *reader) unitNear(u *unit, off uint64) *unit {
	if u.root <= off && off < u.end {
		return u
	}
	return r.unitOf(off)
}
