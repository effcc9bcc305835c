// Package unwind finds the callers in stacks that were recorded with samples (PERF_SAMPLE_STACK_USER, PERF_SAMPLE_REGS_USER), by the call
// frame information of the files that were mapped, on x86-64 and arm64.
package unwind

import "encoding/binary"

// Sample is what a sample has of a thread's state in user space. Its process is one of 64 bits (PERF_SAMPLE_REGS_ABI_64).
type Sample struct {
	Registers Registers
	Stack     []byte // from the stack pointer on; only what was really copied (dyn_size)

	// Module finds the tables of the file that is mapped at an address, and what is to be added to an address of the file to get that
	// in memory. It returns nil where nothing is mapped, or the file cannot be had.
	Module func(address uint64) (m *Module, bias uint64)
}

// Stop says why there are no more callers.
type Stop uint8

const (
	Outermost   Stop = iota // there are none: what starts a thread
	Limit                   // as many were found as were asked for
	StackEnd                // the frame is not in the part of the stack that was recorded
	NoTables                // there are no tables for the code, nor frame pointers
	BrokenFrame             // tables or stack make no sense
)

// String is for statistics.
func (s Stop) String() string {
	return [...]string{"outermost frame", "limit", "end of the recorded stack", "no unwind tables", "broken frame"}[s]
}

// Unwinder unwinds stacks of one architecture. It keeps what it has made of tables, for the next sample. It is not for several goroutines
// at once.
type Unwinder struct {
	arch  Arch
	rows  map[place]*row // nil where there is none
	saved int            // rules in them
}

// place is an address in a file.
type place struct {
	module  *Module
	address uint64
}

// What is kept at most: rows, and rules of registers in them, of which compilers make a handful for each row.
const (
	maxRows  = 1 << 18
	maxSaved = 1 << 20
)

// New makes an Unwinder.
func New(arch Arch) *Unwinder {
	return &Unwinder{arch: arch, rows: make(map[place]*row)}
}

// Unwind appends to chain the addresses at which the functions of a stack stand, at most limit of them, the innermost first. As in
// perf, the first is that of the sample, and those of callers are one less than the address to which is returned, so that they are
// in the call, not behind it.
func (u *Unwinder) Unwind(chain []uint64, s *Sample, limit int) ([]uint64, Stop) {
	w := walk{Unwinder: u, sample: s, registers: s.Registers, exact: true}
	w.stackAt, _ = w.registers.get(u.arch.sp())
	for n := range limit {
		pc, known := w.registers.get(u.arch.pc())
		if !known || pc == 0 {
			return chain, Outermost
		}
		if !w.exact {
			pc--
		}
		chain = append(chain, pc)
		if n == limit-1 {
			break
		}
		if stop, more := w.step(pc); !more {
			return chain, stop
		}
	}
	return chain, Limit
}

// walk goes up one stack.
type walk struct {
	*Unwinder
	sample    *Sample
	registers Registers
	stackAt   uint64
	steps     int  // of expressions
	exact     bool // the program counter is not that of a return: of the sample, or of what a signal interrupted
}

// step makes the registers those of the caller.
func (w *walk) step(pc uint64) (stop Stop, more bool) {
	pcBefore, _ := w.registers.get(w.arch.pc())
	spBefore, _ := w.registers.get(w.arch.sp())
	r := w.row(pc)
	var err error
	switch {
	case r == nil:
		stop, err = NoTables, w.byFramePointer()
	case r.end:
		return Outermost, false
	case r.restorer:
		err = w.fromSignal()
	default:
		stop, err = BrokenFrame, w.apply(r)
	}
	if _, missing := err.(memoryError); missing {
		return StackEnd, false
	}
	if err != nil {
		return stop, false
	}
	w.exact = r != nil && r.signal
	w.authenticate()
	sp, known := w.registers.get(w.arch.sp())
	pcNow, _ := w.registers.get(w.arch.pc())
	if !known || !w.exact && (sp < spBefore || sp == spBefore && pcNow == pcBefore) { // stacks grow down; a signal can have its own
		return BrokenFrame, false
	}
	return stop, true
}

// memory reads a word of the stack.
func (w *walk) memory(address uint64) (uint64, bool) {
	offset := address - w.stackAt
	if offset >= uint64(len(w.sample.Stack)) || uint64(len(w.sample.Stack))-offset < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(w.sample.Stack[offset:]), true
}

// row finds the row for an address in memory.
func (w *walk) row(pc uint64) *row {
	m, bias := w.sample.Module(pc)
	if m == nil {
		return nil
	}
	key := place{m, pc - bias}
	r, known := w.rows[key]
	if known {
		return r
	}
	r = m.row(key.address, w.exact)
	if len(w.rows) >= maxRows || w.saved >= maxSaved {
		clear(w.rows)
		w.saved = 0
	}
	w.rows[key] = r
	if r != nil {
		w.saved += len(r.rules)
	}
	return r
}

// apply finds the registers of the caller by a row.
func (w *walk) apply(r *row) error {
	f := frame{table: r.table, registers: &w.registers, memory: w.memory, steps: &w.steps}
	var err error
	if r.cfa.kind == isExpression {
		f.cfa, err = f.evaluate(r.table.expression(&r.cfa))
	} else {
		f.cfa, err = f.cfaOf(r.cfa)
	}
	if err != nil {
		return err
	}
	f.cfaKnown = true
	caller := w.registers
	caller.Set(w.arch.sp(), f.cfa)
	for i := range r.rules {
		saved := &r.rules[i]
		v, err := f.value(&saved.rule)
		switch {
		case err == nil && saved.kind != undefined:
			caller.Set(uint64(saved.saved), v)
		case uint64(saved.saved) == r.ra || uint64(saved.saved) == w.arch.sp():
			return err
		default: // it may not be needed any more
			caller.forget(uint64(saved.saved))
		}
	}
	pc, known := caller.get(r.ra)
	if !known {
		return errRegister
	}
	caller.Set(w.arch.pc(), pc)
	w.registers = caller
	return nil
}

func (f *frame) cfaOf(r rule) (uint64, error) {
	v, known := f.registers.get(uint64(r.register))
	if r.kind != inRegister || !known {
		return 0, errRegister
	}
	return v + uint64(r.offset), nil
}

// value is that of a register in the caller.
func (f *frame) value(r *rule) (uint64, error) {
	var v uint64
	var err error
	switch r.kind {
	case inRegister:
		v, known := f.registers.get(uint64(r.register))
		if !known {
			return 0, errRegister
		}
		return v, nil
	case isOffset:
		return f.cfa + uint64(r.offset), nil
	case isExpression:
		return f.evaluate(f.table.expression(r))
	case atOffset:
		v = f.cfa + uint64(r.offset)
	case atExpression:
		v, err = f.evaluate(f.table.expression(r))
	}
	if err != nil || r.kind == undefined {
		return 0, err
	}
	word, ok := f.memory(v)
	if !ok {
		return 0, memoryError(v)
	}
	return word, nil
}

// byFramePointer takes the frame pointer to point at where it was saved itself, with the return address behind it, as both ABIs have it. What was
// saved need be no frame pointer: the caller may have tables, and use the register for something else.
func (w *walk) byFramePointer() error {
	fp, known := w.registers.get(w.arch.framePointer())
	if !known || fp < w.stackAt {
		return errRegister
	}
	saved, ok := w.memory(fp)
	ra, ok2 := w.memory(fp + 8)
	if !ok || !ok2 || saved == fp {
		return errRegister // what is in the register is no frame pointer, most likely
	}
	sp, _ := w.registers.get(w.arch.sp())
	if fp < sp {
		return errRegister
	}
	w.registers.Set(w.arch.framePointer(), saved)
	w.registers.Set(w.arch.sp(), fp+16)
	w.registers.Set(w.arch.pc(), ra)
	if w.arch == ARM64 {
		w.registers.Set(arm64LR, ra)
	}
	return nil
}

// authenticate takes the signature off a return address (Armv8.3 pointer authentication): user addresses have 48 bits, if nothing is mapped
// where it points to with all its bits.
func (w *walk) authenticate() {
	pc, _ := w.registers.get(w.arch.pc())
	if w.arch != ARM64 || pc>>48 == 0 {
		return
	}
	if m, _ := w.sample.Module(pc); m != nil {
		return
	}
	w.registers.Set(arm64PC, pc&(1<<48-1))
}
