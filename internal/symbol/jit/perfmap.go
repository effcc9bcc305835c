// Package jit names code that JIT compilers generate. It reads the files that they write: perf-PID.map
// (tools/perf/Documentation/jit-interface.txt) and jit-PID.dump (tools/perf/Documentation/jitdump-specification.txt).
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

// maxFunctions is the number of functions that are read from a file. The owner of the process controls the file, so its size needs a limit.
const maxFunctions = 1 << 20

// Function is a function that a JIT compiler generated.
type Function struct {
	Name       string
	Start, End uint64
}

// Map is a parsed perf-PID.map. It is immutable and safe for concurrent use.
type Map struct {
	text  []byte
	lines []mapLine // sorted by start; no two start at the same address
}

// mapLine is a line of a map, in 24 bytes without pointers: a map can have many lines.
type mapLine struct {
	start, end uint64 // end equals start if the line has no code
	name       uint32 // offset in the text; a later line has a larger one
	size       uint32 // of the name
}

// Size returns the memory that the map takes, in bytes.
func (m *Map) Size() int64 {
	return int64(cap(m.text)) + int64(cap(m.lines))*int64(unsafe.Sizeof(mapLine{}))
}

// ParseMap reads a perf-PID.map and keeps its text. Each line has a start and a size in hexadecimal, and a name. A map has no times.
// Compilers append to it, so where a later line covers the start of an earlier one, the later line replaces it. ParseMap skips lines that
// it cannot read and stops after 1,048,576 functions; the error reports either, and the Map is valid despite it. The Map is nil only if the
// text exceeds 4 GiB.
func ParseMap(text []byte) (*Map, error) {
	if uint64(len(text)) > math.MaxUint32 {
		return nil, errors.New("it has more than 4 GiB")
	}
	m := &Map{text: text, lines: make([]mapLine, 0, min(bytes.Count(text, []byte{'\n'})+1, maxFunctions))}
	var first error
	bad, n := 0, 0 // counts of lines
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

// parseLine parses text[at:end].
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

// hexadecimal parses a number and the space after it.
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
	return 0, at, false // no space follows
}

// settle sorts the lines. It removes lines without code, and lines whose start is covered by a later line of the file.
func (m *Map) settle() {
	byStart := func(a, b mapLine) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.name, b.name)
	}
	over := latest{lines: m.lines} // the lines that may cover the next start
	// In a sorted file no line covers the start of an earlier one, unless both have the same start.
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

// Find returns the function at an address, and false if there is none. It allocates the name.
func (m *Map) Find(address uint64) (Function, bool) {
	n := sort.Search(len(m.lines), func(i int) bool { return m.lines[i].start > address })
	if n == 0 || address >= m.lines[n-1].end {
		return Function{}, false
	}
	l := &m.lines[n-1]
	return Function{string(m.text[l.name:][:l.size]), l.start, l.end}, true
}

// latest is a heap of indexes of lines. Its top is the line that comes last in the file.
type latest struct {
	lines []mapLine
	heap  []int32
}

// before reports whether element a of the heap belongs above element b.
func (l *latest) before(a, b int) bool { return l.lines[l.heap[a]].name > l.lines[l.heap[b]].name }

func (l *latest) push(line int32) {
	l.heap = append(l.heap, line)
	for i := len(l.heap) - 1; i > 0 && l.before(i, (i-1)/2); i = (i - 1) / 2 {
		l.heap[i], l.heap[(i-1)/2] = l.heap[(i-1)/2], l.heap[i]
	}
}

// at returns the line that comes last in the file among those that contain the address or start there. There must be one. Addresses must
// not decrease from call to call, because at drops lines that end before the address.
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
