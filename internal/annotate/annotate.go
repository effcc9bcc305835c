// Package annotate shows the samples of a recording next to their instructions and source lines: of functions in ELF files, of the kernel,
// and of BPF programs, whose code the recording itself contains.
package annotate

import (
	"cmp"
	"slices"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/bpfprog/disasm"
)

// Report is the annotation of a recording.
type Report struct {
	Events    []Event     `json:"events"`                   // the events of the recording
	Functions []*Function `json:"functions"`                // largest share first
	Nameless  uint64      `json:"samples_without_function"` // samples whose address has no symbol
	Others    int         `json:"functions_left_out"`       // number of functions below --percent-limit

	Unreadable int `json:"functions_without_code_left_out,omitempty"` // number of them; absent without --skip-missing
}

// Event is a sampled event.
type Event struct {
	Name    string `json:"name"`
	Samples uint64 `json:"samples"` // in all functions
	Value   uint64 `json:"value"`   // the sum of their periods
}

// Value sums up samples of one event.
type Value struct {
	Samples uint64  `json:"samples"`
	Value   uint64  `json:"value"`   // the sum of their periods
	Percent float64 `json:"percent"` // share of the function's value; for a function, of the event's value
}

// Function is a function with its samples. Its slices of values have one entry for each event, in their order.
type Function struct {
	Name     string          `json:"name"`
	Module   string          `json:"module"`                // file, kernel module or BPF program
	Program  *Program        `json:"bpf_program,omitempty"` // nil if it is other code
	Start    bpfprog.Address `json:"start"`                 // address in the module
	Size     uint64          `json:"bytes_code"`            // its size
	Values   []Value         `json:"values"`                // one per event
	Missing  string          `json:"missing,omitempty"`     // why there are no instructions, and how to fix it
	NoSource string          `json:"no_source,omitempty"`   // why there are no lines, or why some have no text
	Note     string          `json:"note,omitempty"`        // what the reader must know about the instructions

	Instructions []Instruction `json:"instructions"` // without code, the addresses of samples
	Lines        []LineSum     `json:"lines"`        // lines with samples, the one with the most first
}

// Program is the BPF program that a function belongs to.
type Program struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
	Tag  string `json:"tag"`
}

// Instruction is an instruction with its samples: those in which it was the next to be executed.
type Instruction struct {
	Address bpfprog.Address `json:"address"`
	Bytes   string          `json:"bytes,omitempty"`  // in hexadecimal
	Text    string          `json:"text,omitempty"`   // in the notation of assemblers; empty without code
	Target  string          `json:"target,omitempty"` // symbol and offset of its call or jump target
	Source  *Line           `json:"source,omitempty"` // the line that begins here
	Values  []Value         `json:"values"`           // one per event
}

// Line is a line of source code.
type Line struct {
	File   string `json:"file"` // path of the source
	Number int    `json:"line"`
	Text   string `json:"text,omitempty"` // empty if the source cannot be read
}

// LineSum is a line with the samples of all its instructions.
type LineSum struct {
	Line
	Values []Value `json:"values"`
}

// code is the code and the lines of a function.
type code struct {
	start       uint64 // address of bytes[0]
	bytes       []byte
	rows        []row // by address
	disassemble disasm.Func
	target      func(addr uint64) string // returns the name of an address; empty if it has none
	missing     string
	noSource    string
	note        string
	program     *Program
}

// row assigns a line to the code from an address on.
type row struct {
	addr uint64
	line Line
}

// Listing is the code of a function, to which samples of different times can be added.
type Listing struct {
	function Function // without values
	rows     []row
	hasCode  bool
	move     func(uint64) uint64 // converts the address of a sample to one of the code
}

// newListing adds the instructions to the function.
func newListing(f Function, c *code, move func(uint64) uint64) *Listing {
	l := &Listing{f, c.rows, c.bytes != nil, move}
	l.function.Missing, l.function.NoSource, l.function.Note, l.function.Program = c.missing, c.noSource, c.note, c.program
	if !l.hasCode {
		return l
	}
	for _, i := range c.disassemble(c.bytes, c.start) {
		in := Instruction{Address: bpfprog.Address(i.Address), Bytes: i.Bytes(), Text: i.Text}
		if i.Target != 0 && c.target != nil {
			in.Target = c.target(i.Target)
		}
		l.function.Instructions = append(l.function.Instructions, in)
	}
	return l
}

// with returns the function with samples. A sample counts for the instruction that contains its address.
func (l *Listing) with(h *hits) *Function {
	f := l.function
	f.Values = h.values
	if !l.hasCode {
		f.withoutCode(h, l.move)
		return &f
	}
	f.Instructions = slices.Clone(f.Instructions)
	for i := range f.Instructions {
		f.Instructions[i].Values = make([]Value, len(f.Values))
	}
	for addr, values := range h.at {
		at, found := slices.BinarySearchFunc(f.Instructions, bpfprog.Address(l.move(addr)), func(i Instruction, addr bpfprog.Address) int {
			return cmp.Compare(i.Address, addr)
		})
		if !found {
			at = max(at-1, 0)
		}
		if len(f.Instructions) > 0 {
			add(f.Instructions[at].Values, values)
		}
	}
	f.addLines(l.rows)
	for i := range f.Instructions {
		setPercents(f.Instructions[i].Values, f.Values)
	}
	for i := range f.Lines {
		setPercents(f.Lines[i].Values, f.Values)
	}
	slices.SortStableFunc(f.Lines, func(a, b LineSum) int { return byValues(a.Values, b.Values) })
	return &f
}

// withoutCode lists the addresses of samples in place of instructions.
func (f *Function) withoutCode(h *hits, move func(uint64) uint64) {
	for addr, values := range h.at {
		i := Instruction{Address: bpfprog.Address(move(addr)), Values: slices.Clone(values)}
		setPercents(i.Values, f.Values)
		f.Instructions = append(f.Instructions, i)
	}
	slices.SortFunc(f.Instructions, func(a, b Instruction) int { return cmp.Compare(a.Address, b.Address) })
}

// addLines marks where lines begin and sums up the samples of each line.
func (f *Function) addLines(rows []row) {
	sums := make(map[Line]int) // positions in f.Lines
	var last *Line
	for n := range f.Instructions {
		i := &f.Instructions[n]
		for len(rows) > 0 && rows[0].addr <= uint64(i.Address) {
			line := rows[0].line
			if last == nil || *last != line {
				last, i.Source = &line, &line
			}
			rows = rows[1:]
		}
		if last == nil || last.Number == 0 || !anySamples(i.Values) {
			continue
		}
		at, known := sums[*last]
		if !known {
			at = len(f.Lines)
			sums[*last] = at
			f.Lines = append(f.Lines, LineSum{*last, make([]Value, len(f.Values))})
		}
		add(f.Lines[at].Values, i.Values)
	}
}

func add(to, values []Value) {
	for e, v := range values {
		to[e].Samples += v.Samples
		to[e].Value += v.Value
	}
}

func anySamples(values []Value) bool {
	return slices.ContainsFunc(values, func(v Value) bool { return v.Samples > 0 })
}

func setPercents(values, totals []Value) {
	for e := range values {
		if totals[e].Value > 0 {
			values[e].Percent = 100 * float64(values[e].Value) / float64(totals[e].Value)
		}
	}
}

// byValues compares the values of the first event that differs. The larger value comes first.
func byValues(a, b []Value) int {
	for e := range a {
		if c := cmp.Compare(b[e].Value, a[e].Value); c != 0 {
			return c
		}
	}
	return 0
}
