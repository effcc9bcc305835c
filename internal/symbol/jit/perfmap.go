// Package jit names what JIT compilers make, by the files that they leave: perf-PID.map (tools/perf/Documentation/jit-interface.txt) and
// jit-PID.dump (tools/perf/Documentation/jitdump-specification.txt).
package jit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"unicode"
	"unsafe"
)

// maxFunctions is the number of functions that are read from a file: the owner of a process decides what stands there.
const maxFunctions = 1 << 20

// Function is what a compiler made.
type Function struct {
	Name       string
	Start, End uint64
}

// Map is a perf-PID.map. It does not change, so goroutines may share it.
type Map struct {
	text  []byte
	lines []mapLine // sorted by start, which differs for each
}

// mapLine is a line of a map, in 24 bytes without pointers: there can be many.
type mapLine struct {
	start, end uint64 // end is start where the line has no code
	name       uint32 // offset in the text, which grows with the lines
	size       uint32 // of the name
}

// Size is how many bytes of memory the map takes.
func (m *Map) Size() int64 {
	return int64(cap(m.text)) + int64(cap(m.lines))*int64(unsafe.Sizeof(mapLine{}))
}

// ParseMap reads a perf-PID.map, whose text it keeps: lines of start and size, in hexadecimal, and a name. A map has no times; where code lies over
// the start of other code, that which comes later in the file replaces the other, as the compiler adds to it. Lines that cannot be read are left
// out, and so are those behind the first 1,048,576 functions; the error reports both.
func ParseMap(text []byte) (*Map, error) {
	if uint64(len(text)) > math.MaxUint32 {
		return nil, errors.New("it has more than 4 GiB")
	}
	m := &Map{text: text, lines: make([]mapLine, 0, min(bytes.Count(text, []byte{'\n'})+1, maxFunctions))}
	var first error
	bad, n := 0, 0 // lines
	for at, end := 0, 0; at < len(text); at = end + 1 {
		n++
		end = len(text)
		if length := bytes.IndexByte(text[at:], '\n'); length >= 0 {
			end = at + length
		}
		line, ok := parseLine(text, at, end)
		if !ok {
			whole := bytes.TrimRight(text[at:end], "\r")
			if len(whole) == 0 {
				continue
			}
			if bad++; bad == 1 {
				first = fmt.Errorf("line %d: %.100q is not a start, a size and a name", n, whole)
			}
			continue
		}
		if len(m.lines) == maxFunctions {
			m.settle()
			return m, fmt.Errorf("it has more than %d functions", maxFunctions)
		}
		m.lines = append(m.lines, line)
	}
	m.settle()
	if bad > 0 {
		return m, fmt.Errorf("%d lines cannot be read, the first of them %w", bad, first)
	}
	return m, nil
}

// parseLine parses the part of the text between two offsets.
func parseLine(text []byte, at, end int) (l mapLine, ok bool) {
	start, at, ok := hexadecimal(text, at, end)
	if !ok {
		return l, false
	}
	size, at, ok := hexadecimal(text, at, end)
	if !ok {
		return l, false
	}
	name := bytes.TrimLeftFunc(text[at:end], unicode.IsSpace)
	at = end - len(name)
	name = bytes.TrimRightFunc(name, unicode.IsSpace)
	return mapLine{start, max(start, start+size), uint32(at), uint32(len(name))}, len(name) > 0
}

// hexadecimal parses a number and the space behind it.
func hexadecimal(text []byte, at, end int) (v uint64, next int, ok bool) {
	if end-at >= 2 && text[at] == '0' && text[at+1] == 'x' {
		at += 2
	}
	for first := at; at < end; at++ {
		digit := text[at]
		switch {
		case digit >= '0' && digit <= '9':
			digit -= '0'
		case digit|0x20 >= 'a' && digit|0x20 <= 'f':
			digit = digit | 0x20 - 'a' + 10
		case digit == ' ':
			return v, at + 1, at > first
		default:
			return 0, at, false
		}
		if v>>60 != 0 {
			return 0, at, false
		}
		v = v<<4 | uint64(digit)
	}
	return 0, at, false // nothing comes behind it
}

// settle sorts the lines, and removes those whose start later ones lie over, and those without code.
func (m *Map) settle() {
	byStart := func(a, b mapLine) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.name, b.name)
	}
	over := latest{lines: m.lines} // those that may lie over the next start
	// Where the file is sorted, no later line lies over the start of another one, unless it has the same.
	sorted := slices.IsSortedFunc(m.lines, byStart)
	if !sorted {
		slices.SortFunc(m.lines, byStart)
	}
	for i := range m.lines {
		l := &m.lines[i]
		if !sorted {
			over.push(int32(i))
		}
		if i+1 < len(m.lines) && m.lines[i+1].start == l.start || !sorted && over.at(l.start) != int32(i) {
			l.size = 0
		}
	}
	m.lines = slices.DeleteFunc(m.lines, func(l mapLine) bool { return l.size == 0 || l.start == l.end })
}

// Find returns the function at an address. It allocates the name.
func (m *Map) Find(address uint64) (Function, bool) {
	n := sort.Search(len(m.lines), func(i int) bool { return m.lines[i].start > address })
	if n == 0 || address >= m.lines[n-1].end {
		return Function{}, false
	}
	l := &m.lines[n-1]
	return Function{string(m.text[l.name:][:l.size]), l.start, l.end}, true
}

// latest is a heap of the indexes of lines. The line that comes last in the file is the first.
type latest struct {
	lines []mapLine
	heap  []int32
}

// before reports whether one element of the heap belongs above another.
func (l *latest) before(a, b int) bool { return l.lines[l.heap[a]].name > l.lines[l.heap[b]].name }

func (l *latest) push(line int32) {
	l.heap = append(l.heap, line)
	for i := len(l.heap) - 1; i > 0 && l.before(i, (i-1)/2); i = (i - 1) / 2 {
		l.heap[i], l.heap[(i-1)/2] = l.heap[(i-1)/2], l.heap[i]
	}
}

// at returns the last line in the file of those that lie over an address or start there. There is one, and addresses go up from call to call: lines
// that end before are dropped.
func (l *latest) at(address uint64) int32 {
	for {
		top := l.heap[0]
		if line := &l.lines[top]; line.end > address || line.start == address {
			return top
		}
		l.pop()
	}
}

func (l *latest) pop() {
	last := len(l.heap) - 1
	l.heap[0] = l.heap[last]
	l.heap = l.heap[:last]
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && l.before(child+1, child) {
			child++
		}
		if !l.before(child, i) {
			break
		}
		l.heap[i], l.heap[child] = l.heap[child], l.heap[i]
		i = child
	}
}
