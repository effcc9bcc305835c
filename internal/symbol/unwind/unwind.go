// Package unwind finds the callers in recorded stacks (PERF_SAMPLE_STACK_USER, PERF_SAMPLE_REGS_USER) from the call frame information of
// mapped files, on x86-64 and arm64. It also compiles call frame information into tables for unwinding in BPF. Both describe code with rows:
// a row covers a range of code, and describes how to find the caller's frame from the canonical frame address (CFA) and where registers
// are saved.
package unwind

import "encoding/binary"

// Sample is a thread's state in user space, from a sample of a 64-bit process (PERF_SAMPLE_REGS_ABI_64).
type Sample struct {
	Registers Registers
	Stack     []byte // from the stack pointer on; only the part that the kernel copied (dyn_size)

	// Module returns the tables of the file that is mapped at an address, and the bias: memory addresses are file addresses plus bias. It
	// returns nil if nothing is mapped there, or if the file is not available.
	Module func(address uint64) (m *Module, bias uint64)
}

// Stop is the reason why unwinding stopped.
type Stop uint8

const (
	Outermost   Stop = iota // the thread's first function
	Limit                   // the requested number of addresses was found
	StackEnd                // the frame is not in the recorded part of the stack
	NoTables                // the code has neither tables nor frame pointers
	BrokenFrame             // the tables or the stack make no sense
)

// String returns a name for statistics.
func (s Stop) String() string {
	return [...]string{"outermost frame", "limit", "end of the recorded stack", "no unwind tables", "broken frame"}[s]
}

// Unwinder unwinds stacks of one architecture. It caches rows for later samples. It is not safe for concurrent use.
type Unwinder struct {
	arch  Arch
	rows  map[rowKey]*row // nil if there is no row
	saved int             // number of rules in rows
}

// rowKey is an address in a file.
type rowKey struct {
	module  *Module
	address uint64
}

// These limit the cache: the number of rows, and of register rules in them. Compilers write a handful of rules per row.
const (
	maxRows  = 1 << 18
	maxSaved = 1 << 20
)

// New returns an Unwinder for an architecture.
func New(arch Arch) *Unwinder {
	return &Unwinder{arch: arch, rows: make(map[rowKey]*row)}
}

// Unwind appends the addresses of a stack's functions to chain, at most limit, the innermost first. As in perf, the first one is the
// sample's program counter; for callers it is the return address minus one, which is within the call instruction and not after it.
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

// walk is the state of unwinding one stack.
type walk struct {
	*Unwinder
	sample    *Sample
	registers Registers
	stackAt   uint64
	steps     int  // of expressions
	exact     bool // the program counter is no return address: it is that of the sample, or of code that a signal interrupted
}

// step sets the registers to those of the caller.
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
	if !known || !w.exact && (sp < spBefore || sp == spBefore && pcNow == pcBefore) { // stacks grow down; a signal handler can have its own stack
		return BrokenFrame, false
	}
	return stop, true
}

// memory reads a word of the recorded stack.
func (w *walk) memory(address uint64) (uint64, bool) {
	offset := address - w.stackAt
	if offset >= uint64(len(w.sample.Stack)) || uint64(len(w.sample.Stack))-offset < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(w.sample.Stack[offset:]), true
}

// row returns the row for an address in memory, or nil.
func (w *walk) row(pc uint64) *row {
	m, bias := w.sample.Module(pc)
	if m == nil {
		return nil
	}
	key := rowKey{m, pc - bias}
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

// apply sets the registers to those of the caller, as the row describes.
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

// value returns a register's value in the caller.
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

// byFramePointer assumes that the frame pointer points to its saved value, followed by the return address, as in both ABIs. The saved value
// may be something else: the caller may have tables and use the register for another purpose.
func (w *walk) byFramePointer() error {
	fp, known := w.registers.get(w.arch.framePointer())
	if !known || fp < w.stackAt {
		return errRegister
	}
	saved, ok := w.memory(fp)
	ra, ok2 := w.memory(fp + 8)
	if !ok || !ok2 || saved == fp {
		return errRegister // the register probably holds no frame pointer
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

// authenticate removes the signature from a return address (Armv8.3 pointer authentication). It assumes that user addresses have 48 bits,
// unless something is mapped at the whole address.
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
