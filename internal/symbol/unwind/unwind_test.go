package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// frameSection builds an .eh_frame or a .debug_frame.
type frameSection struct {
	b     []byte
	debug bool
}

const sectionAt = 0x100000

// add appends an entry, given the part after its length.
func (s *frameSection) add(body ...[]byte) (offset int) {
	b := slices.Concat(body...)
	for len(b)%4 != 0 {
		b = append(b, 0) // nop
	}
	offset = len(s.b)
	s.b = append(binary.LittleEndian.AppendUint32(s.b, uint32(len(b))), b...)
	return offset
}

// common appends a common information entry with a code alignment factor of 1 and a data alignment factor of -8.
func (s *frameSection) common(augmentation string, ra byte, instructions ...byte) int {
	id := uint32(0)
	if s.debug {
		id = 0xffffffff
	}
	head := append(le32(id), 1)
	head = append(append(head, augmentation...), 0, 1, 0x78, ra)
	if strings.HasPrefix(augmentation, "z") {
		head = append(head, 1, 0x1b) // pointers have 4 bytes and are relative
	}
	return s.add(head, instructions)
}

// function appends the entry of a function.
func (s *frameSection) function(common int, start, size uint64, instructions ...byte) {
	if s.debug {
		s.add(le32(uint32(common)), le64(start), le64(size), instructions)
		return
	}
	at := len(s.b)
	s.add(le32(uint32(at+4-common)), le32(uint32(start-sectionAt-uint64(at)-8)), le32(uint32(size)), []byte{0}, instructions)
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// These are addresses of the tests in the file, which is mapped at bias.
const (
	bias  = 0x7f0000000000
	inner = 0x1010 // in the function of the test, which is at 0x1000
	ret   = 0x3005 // in its caller, which has no caller
	sp    = 0x7ffc00000000
)

// module returns a module with the function of a test and its caller.
func module(t *testing.T, arch Arch, signal bool, instructions ...byte) *Module {
	t.Helper()
	var s frameSection
	augmentation, ra := "zR", byte(amd64PC)
	initial := []byte{0x0c, amd64SP, 8, 0x80 | amd64PC, 1} // def_cfa rsp+8, return address at CFA-8
	if arch == ARM64 {
		ra, initial = arm64LR, []byte{0x0c, arm64SP, 0}
	}
	if signal {
		augmentation = "zRS"
	}
	function := s.common(augmentation, ra, initial...)
	s.function(function, 0x1000, 0x100, instructions...)
	s.function(s.common("zR", ra, 0x07, ra), 0x3000, 0x100) // the return address is undefined
	m, err := NewModule(arch, Section{sectionAt, s.b}, Section{}, noCode)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mapped(m *Module) func(uint64) (*Module, uint64) {
	return func(address uint64) (*Module, uint64) {
		if address-bias < 0x10000 {
			return m, bias
		}
		return nil, 0
	}
}

// words returns a stack with words at the given offsets from the stack pointer.
func words(size int, at map[int]uint64) []byte {
	b := make([]byte, size)
	for offset, v := range at {
		binary.LittleEndian.PutUint64(b[offset:], v)
	}
	return b
}

type registers map[uint64]uint64

func chainText(chain []uint64) string {
	var s []string
	for _, a := range chain {
		if a > bias && a < sp {
			a -= bias
		}
		s = append(s, fmt.Sprintf("%x", a))
	}
	return strings.Join(s, " ")
}

// TestInstructions tries several ways to describe a frame.
func TestInstructions(t *testing.T) {
	const found = "1010 3004"
	for _, test := range []struct {
		name         string
		arch         Arch
		instructions []byte
		registers    registers
		stack        map[int]uint64
		want         string
		stop         Stop
	}{
		{"at the entry", AMD64, nil, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"pushed", AMD64, []byte{0x41, 0x0e, 16, 0x86, 2}, nil, map[int]uint64{8: bias + ret}, found, Outermost},
		{"not yet pushed", AMD64, []byte{0x02, 0x11, 0x0e, 16}, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"advances of all sizes", AMD64, []byte{0x02, 4, 0x03, 4, 0, 0x04, 4, 0, 0, 0, 0x0e, 16, 0x03, 0xff, 0xff, 0x0e, 24}, nil,
			map[int]uint64{8: bias + ret}, found, Outermost},
		{"advance to the address itself", AMD64, []byte{0x50, 0x0e, 16}, nil, map[int]uint64{8: bias + ret}, found, Outermost},
		{"set_loc", AMD64, slices.Concat([]byte{0x01}, le32(0xffffffff), []byte{0x0e, 16}), nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"frame pointer", AMD64, []byte{0x0c, amd64BP, 16}, registers{amd64BP: sp + 32}, map[int]uint64{40: bias + ret}, found, Outermost},
		{"def_cfa_register and offset", AMD64, []byte{0x0d, amd64BP, 0x0e, 16}, registers{amd64BP: sp + 32}, map[int]uint64{40: bias + ret}, found, Outermost},
		{"signed factored", AMD64, []byte{0x12, amd64BP, 0x7e, 0x11, amd64PC, 1}, registers{amd64BP: sp}, map[int]uint64{8: bias + ret}, found, Outermost},
		{"def_cfa_offset_sf", AMD64, []byte{0x13, 0x7e}, nil, map[int]uint64{8: bias + ret}, found, Outermost},
		{"remembered and restored", AMD64, []byte{0x0a, 0x0e, 64, 0x0b}, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"a register restored", AMD64, []byte{0x90, 5, 0xd0}, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"offset_extended, restored", AMD64, []byte{0x05, amd64PC, 5, 0x06, amd64PC}, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"in a register", AMD64, []byte{0x09, amd64PC, 3}, registers{3: bias + ret}, nil, found, Outermost},
		{"negative offset", AMD64, []byte{0x2f, amd64PC, 1}, nil, map[int]uint64{16: bias + ret}, found, Outermost},
		{"size of arguments", AMD64, []byte{0x2e, 64}, nil, map[int]uint64{0: bias + ret}, found, Outermost},
		{"stack pointer saved", AMD64, []byte{0x14, amd64SP, 0x7f}, nil, map[int]uint64{0: bias + ret}, "1010", BrokenFrame}, // it goes down
		{"CFA by expression", AMD64, []byte{0x0f, 3, 0x77, 24, 0x96}, nil, map[int]uint64{16: bias + ret}, found, Outermost},
		{"saved by expression", AMD64, []byte{0x10, amd64PC, 2, 0x23, 8}, nil, map[int]uint64{16: bias + ret}, found, Outermost},
		{"value by expression", AMD64, []byte{0x16, amd64PC, 2, 0x73, 5}, registers{3: bias + 0x3000}, nil, found, Outermost},
		// .plt: the CFA is the stack pointer plus 8, and 8 more from byte 11 of each 16-byte entry on
		{"linkage table, early", AMD64, plt, registers{amd64PC: bias + 0x100a}, map[int]uint64{0: bias + ret}, "100a 3004", Outermost},
		{"linkage table, late", AMD64, plt, registers{amd64PC: bias + 0x102b}, map[int]uint64{8: bias + ret}, "102b 3004", Outermost},
		{"not recorded", AMD64, []byte{0x0e, 0x80, 0x08}, nil, nil, "1010", StackEnd},
		{"unknown register", AMD64, []byte{0x0c, 12, 8}, nil, nil, "1010", BrokenFrame},
		{"unknown instruction, frame pointer", AMD64, []byte{0x3f}, registers{amd64BP: sp + 32}, map[int]uint64{40: bias + ret}, found, Outermost},
		{"unknown instruction", AMD64, []byte{0x3f}, nil, nil, "1010", NoTables},
		{"restored without remembering", AMD64, []byte{0x0b}, nil, nil, "1010", NoTables},
		{"return to nowhere", AMD64, nil, nil, map[int]uint64{0: 0}, "1010", Outermost},
		{"leaf", ARM64, nil, registers{arm64LR: bias + ret}, nil, found, Outermost},
		{"frame", ARM64, []byte{0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3}, nil, map[int]uint64{8: bias + ret}, found, Outermost},
		{"signed return address", ARM64, []byte{0x2d, 0x41, 0x0e, 32, 0x9e, 3}, nil, map[int]uint64{8: 0xb4<<56 | bias + ret}, found, Outermost},
		{"leaf that returns to itself", ARM64, nil, registers{arm64LR: bias + inner + 1}, nil, "1010 1010", BrokenFrame},
	} {
		s := &Sample{Stack: words(64, test.stack), Module: mapped(module(t, test.arch, false, test.instructions...))}
		s.Registers.Set(test.arch.pc(), bias+inner)
		s.Registers.Set(test.arch.sp(), sp)
		for n, v := range test.registers {
			s.Registers.Set(n, v)
		}
		chain, stop := New(test.arch).Unwind(nil, s, 10)
		if got := chainText(chain); got != test.want || stop != test.stop {
			t.Errorf("%s: %s, %s; not %s, %s", test.name, got, stop, test.want, test.stop)
		}
	}
}

// plt is the expression that linkers write for .plt: rsp + 8 + (((rip & 15) >= 11) << 3).
var plt = []byte{0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}

// TestExpressions evaluates operations. The result becomes the program counter.
func TestExpressions(t *testing.T) {
	registers := &Registers{}
	registers.Set(3, 100)
	f := frame{registers: registers, cfa: 7, cfaKnown: true,
		memory: func(a uint64) (uint64, bool) { return 0x1122334455667788, a == 100 }}
	for _, test := range []struct {
		expression string
		want       uint64
		err        string
	}{
		{"", 7, ""},
		{"\x03\x01\x02\x03\x04\x05\x06\x07\x08", 0x0807060504030201, ""},
		{"\x08\xff", 255, ""}, {"\x09\xff", ^uint64(0), ""}, {"\x0a\xff\xff", 0xffff, ""}, {"\x0b\xff\xff", ^uint64(0), ""},
		{"\x0c\xff\xff\xff\xff", 0xffffffff, ""}, {"\x0d\xff\xff\xff\xff", ^uint64(0), ""},
		{"\x0e\x01\x00\x00\x00\x00\x00\x00\x80", 1<<63 + 1, ""}, {"\x10\x80\x01", 128, ""}, {"\x11\x7f", ^uint64(0), ""},
		{"\x35\x12\x22", 10, ""}, {"\x35\x36\x13", 5, ""}, {"\x35\x36\x14", 5, ""}, {"\x35\x36\x37\x15\x02", 5, ""},
		{"\x35\x36\x16\x1c", 1, ""}, {"\x31\x32\x33\x17", 2, ""}, {"\x31\x32\x33\x17\x13\x13", 3, ""},
		{"\x11\x7b\x19", 5, ""}, {"\x35\x1f", ^uint64(4), ""}, {"\x35\x20", ^uint64(5), ""}, {"\x35\x23\x05", 10, ""},
		{"\x37\x33\x1a", 3, ""}, {"\x11\x7a\x32\x1b", ^uint64(2), ""}, {"\x37\x32\x1d", 1, ""}, {"\x37\x32\x1e", 14, ""},
		{"\x34\x31\x21", 5, ""}, {"\x31\x34\x24", 16, ""}, {"\x3f\x32\x25", 3, ""}, {"\x11\x78\x31\x26", ^uint64(3), ""}, {"\x37\x32\x27", 5, ""},
		{"\x31\x31\x29", 1, ""}, {"\x31\x32\x2a", 0, ""}, {"\x32\x31\x2b", 1, ""}, {"\x32\x31\x2c", 0, ""}, {"\x11\x7f\x30\x2d", 1, ""}, {"\x31\x32\x2e", 1, ""},
		{"\x2f\x01\x00\x31", 7, ""}, {"\x31\x28\x01\x00\x35", 7, ""}, {"\x30\x28\x01\x00\x35", 5, ""},
		{"\x73\x00\x06", 0x1122334455667788, ""}, {"\x92\x03\x00\x94\x02", 0x7788, ""}, {"\x73\x01\x06", 0, "memory at 0x65 was not recorded"},
		{"\x9c", 7, ""}, {"\x96", 7, ""}, {"\x4f", 31, ""},
		{"\x13", 0, "takes more"}, {"\x22", 0, "takes more"}, {"\x15\x01", 0, "takes more"}, {strings.Repeat("\x12", 100), 0, "takes more"},
		{"\x31\x30\x1b", 0, "divides by 0"}, {"\x31\x30\x1d", 0, "divides by 0"}, {"\x2f\xfd\xff", 0, "too many steps"},
		{"\x2f\x01", 0, "too early"}, {"\x2f\xf0\xff", 0, "too early"}, {"\x03\x01", 0, "too early"}, {"\xe0", 0, "unknown operation 0xe0"},
		{"\x74\x00", 0, "register is not known"}, {"\x73\x00\x94\x03", 0, "reads 3 bytes"},
	} {
		f.steps = new(int)
		got, err := f.evaluate([]byte(test.expression))
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("% x: %#x, %v; not %#x, %s", test.expression, got, err, test.want, test.err)
		}
	}
	if _, err := (&frame{registers: registers, steps: new(int)}).evaluate([]byte("\x9c")); err == nil || !strings.Contains(err.Error(), "refers to it") {
		t.Errorf("the CFA in its own expression: %v", err)
	}
}

// TestSignal has a signal handler on a stack of its own, which interrupted the first instruction of a function. The address of that
// instruction is not a return address.
func TestSignal(t *testing.T) {
	interrupted := map[int]uint64{}
	at := func(n uint64, v uint64) { interrupted[arm64SignalRegisters+8*int(n)] = v }
	at(arm64SP, sp-0x1000)
	at(arm64PC, bias+0x3000)
	for _, test := range []struct {
		arch         Arch
		instructions []byte
		stack        map[int]uint64
	}{
		// breg rsp+16, deref; saved at rsp+24: as in glibc's restorer
		{AMD64, []byte{0x0f, 3, 0x77, 16, 0x06, 0x10, amd64PC, 2, 0x77, 24}, map[int]uint64{16: sp - 0x1000, 24: bias + 0x3000}},
		{ARM64, nil, interrupted},
	} {
		s := &Sample{Stack: words(1024, test.stack), Module: mapped(module(t, test.arch, true, test.instructions...))}
		s.Registers.Set(test.arch.pc(), bias+inner)
		s.Registers.Set(test.arch.sp(), sp)
		chain, stop := New(test.arch).Unwind(nil, s, 10)
		if got := chainText(chain); got != "1010 3000" || stop != Outermost {
			t.Errorf("%v: %s, %s", test.arch, got, stop)
		}
	}
}

// TestRestorers has restorers without tables, as in arm64's vDSO of Linux 6.12 and in musl.
func TestRestorers(t *testing.T) {
	for _, arch := range []Arch{AMD64, ARM64} {
		r := restorers[arch]
		text := slices.Concat(make([]byte, 0x10), r.code, make([]byte, 16))
		m, err := NewModule(arch, Section{}, Section{}, func(start, end uint64) ([]byte, error) {
			if start < 0x4000 || end > 0x4000+uint64(len(text)) {
				return nil, errors.New("not there")
			}
			return text[start-0x4000 : end-0x4000], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		stack := map[int]uint64{}
		at := func(n int, v uint64) {
			if arch == AMD64 {
				stack[amd64SignalRegisters+8*slices.Index(amd64Signal[:], uint64(n))] = v
			} else {
				stack[arm64SignalRegisters+8*n] = v
			}
		}
		at(int(arch.framePointer()), sp+512)
		at(int(arch.sp()), sp+504)
		at(int(arch.pc()), bias+0x3000)
		stack[512], stack[520] = 0, bias+0x3106
		for pc, want := range map[uint64]string{
			0x4010: "4010 3000 3105", 0x4010 + r.call: fmt.Sprintf("%x 3000 3105", 0x4010+r.call), 0x4011: "4011", 0x400f: "400f",
		} {
			s := &Sample{Stack: words(640, stack), Module: mapped(m)}
			s.Registers.Set(arch.pc(), bias+pc)
			s.Registers.Set(arch.sp(), sp)
			chain, stop := New(arch).Unwind(nil, s, 10)
			if got := chainText(chain); got != want || stop != NoTables {
				t.Errorf("%v: %s, %s; not %s", arch, got, stop, want)
			}
			if len(chain) == 1 {
				continue
			}
			s.Stack = s.Stack[:100]
			if chain, stop = New(arch).Unwind(nil, s, 10); len(chain) != 1 || stop != StackEnd {
				t.Errorf("%v, cut: %x, %s", arch, chain, stop)
			}
		}
		// a handler returned here
		s := &Sample{Stack: words(640, nil), Module: mapped(m)}
		w := walk{Unwinder: New(arch), sample: s}
		if r := w.row(bias + 0x400f); r == nil || !r.restorer {
			t.Errorf("%v: the restorer is not known by the address that the handler returns to", arch)
		}
	}
}

func noCode(uint64, uint64) ([]byte, error) { return nil, errors.New("there is no code") }

// TestFramePointers unwinds code without tables.
func TestFramePointers(t *testing.T) {
	none := func(uint64) (*Module, uint64) { return nil, 0 }
	stack := map[int]uint64{16: sp + 48, 24: 0x5001, 48: 0, 56: 0x6001}
	for _, arch := range []Arch{AMD64, ARM64} {
		s := &Sample{Stack: words(64, stack), Module: none}
		s.Registers.Set(arch.pc(), 0x4000)
		s.Registers.Set(arch.sp(), sp)
		s.Registers.Set(arch.framePointer(), sp+16)
		chain, stop := New(arch).Unwind(nil, s, 10)
		if got := chainText(chain); got != "4000 5000 6000" || stop != NoTables {
			t.Errorf("%v: %s, %s", arch, got, stop)
		}
		if chain, stop = New(arch).Unwind([]uint64{1}, s, 2); chainText(chain) != "1 4000 5000" || stop != Limit {
			t.Errorf("%v: two frames: %x, %s", arch, chain, stop)
		}
		s.Stack = words(64, map[int]uint64{16: sp + 16, 24: 0x5001}) // points to itself
		if chain, _ := New(arch).Unwind(nil, s, 10); chainText(chain) != "4000" {
			t.Errorf("%v: loop: %x", arch, chain)
		}
		// As glibc's _dl_call_fini calls __do_global_dtors_aux, which has no table.
		s.Stack = words(64, map[int]uint64{16: 0x42, 24: bias + ret})
		s.Module = mapped(module(t, arch, false))
		if chain, stop := New(arch).Unwind(nil, s, 10); chainText(chain) != "4000 3004" || stop != Outermost {
			t.Errorf("%v: the caller uses the register for something else: %s, %s", arch, chainText(chain), stop)
		}
	}
	if chain, stop := New(AMD64).Unwind(nil, &Sample{Module: none}, 10); len(chain) != 0 || stop != Outermost {
		t.Errorf("without registers: %x, %s", chain, stop)
	}
}

func TestFromSample(t *testing.T) {
	r := FromSample(AMD64, 1<<0|1<<6|1<<7|1<<8|1<<9|1<<16|1<<23, []uint64{10, 16, 17, 18, 19, 26, 33})
	for n, want := range map[uint64]uint64{0: 10, amd64BP: 16, amd64SP: 17, amd64PC: 18, 8: 26, 15: 33} {
		if got, known := r.get(n); got != want || !known {
			t.Errorf("register %d: %d, %v; not %d", n, got, known, want)
		}
	}
	if _, known := r.get(3); known {
		t.Error("a register that was not recorded is known")
	}
	r = FromSample(ARM64, 1<<29|1<<31|1<<32|1<<46, []uint64{1, 2, 3, 4, 5})
	for n, want := range map[uint64]uint64{arm64FP: 1, arm64SP: 2, arm64PC: 3} {
		if got, _ := r.get(n); got != want {
			t.Errorf("register %d: %d, not %d", n, got, want)
		}
	}
	if r = FromSample(AMD64, 3, []uint64{1}); r.known != 1 {
		t.Errorf("fewer values than bits: %b", r.known)
	}
}

// TestDebugFrame has a section with absolute addresses and no augmentation.
func TestDebugFrame(t *testing.T) {
	s := frameSection{debug: true}
	c := s.common("", amd64PC, 0x0c, amd64SP, 8, 0x90, 1)
	s.function(c, bias+0x1000, 0x100)
	m, err := NewModule(AMD64, Section{}, Section{0, s.b}, noCode)
	if err != nil {
		t.Fatal(err)
	}
	sample := &Sample{Stack: words(16, map[int]uint64{0: 5}), Module: func(uint64) (*Module, uint64) { return m, 0 }}
	sample.Registers.Set(amd64PC, bias+0x10ff)
	sample.Registers.Set(amd64SP, sp)
	if chain, _ := New(AMD64).Unwind(nil, sample, 10); chainText(chain) != "10ff 4" {
		t.Errorf("%x", chain)
	}
}

// TestBrokenTables has unreadable entries next to a readable one.
func TestBrokenTables(t *testing.T) {
	var good frameSection
	good.function(good.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x90, 1), 0x1000, 0x100)
	for name, test := range map[string]struct {
		make func(s *frameSection)
		want string
	}{
		"no common":          {func(s *frameSection) { s.add(le32(0x7000), le64(0)) }, "beyond the section"},
		"common is none":     {func(s *frameSection) { s.add(le32(uint32(len(s.b)+4-24)), le64(0)) }, "there is no common information"},
		"unknown version":    {func(s *frameSection) { s.function(s.add(le32(0), []byte{9}), 1, 1) }, "unknown version 9"},
		"augmentation":       {func(s *frameSection) { s.function(s.common("eh", 16), 1, 1) }, "unknown augmentation"},
		"augmentation data":  {func(s *frameSection) { s.function(s.add(le32(0), []byte("\x01zR\x00\x01\x78\x10\x7f")), 1, 1) }, "end beyond it"},
		"cut":                {func(s *frameSection) { s.b = append(s.b, 0xff, 0, 0, 0) }, "longer than the section"},
		"longer than memory": {func(s *frameSection) { s.b = append(s.b, slices.Repeat([]byte{0xff}, 12)...) }, "longer than the section"},
		"short":              {func(s *frameSection) { s.add(le32(uint32(len(s.b)+4)), le32(0)) }, "cannot be read"},
		"segments":           {func(s *frameSection) { s.function(s.add(le32(0), []byte("\x04\x00\x08\x01\x01\x78\x10\x00")), 1, 1) }, "with segments"},
		"relative to data": {func(s *frameSection) {
			s.function(s.add(le32(0), []byte("\x01zR\x00\x01\x78\x10\x01\x3b")), 1, 1)
		}, "encoding 0x3b"},
	} {
		s := frameSection{b: slices.Clone(good.b)}
		test.make(&s)
		m, err := NewModule(AMD64, Section{sectionAt, s.b}, Section{}, noCode)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, not %q", name, err, test.want)
		}
		if _, e := m.find(0x1050); e == nil {
			t.Errorf("%s: the good entry is not found", name)
		}
	}
}

// TestNoAllocation unwinds the same stack again.
func TestNoAllocation(t *testing.T) {
	s := &Sample{Stack: words(64, map[int]uint64{0: bias + ret}), Module: mapped(module(t, AMD64, false))}
	s.Registers.Set(amd64PC, bias+inner)
	s.Registers.Set(amd64SP, sp)
	u, chain := New(AMD64), make([]uint64, 0, 10)
	u.Unwind(chain, s, 10)
	if n := testing.AllocsPerRun(10, func() { u.Unwind(chain, s, 10) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzUnwind unwinds any stack with any tables.
func FuzzUnwind(f *testing.F) {
	var s frameSection
	s.function(s.common("zR", amd64PC, 0x0c, amd64SP, 8, 0x90, 1), 0x1000, 0x100, 0x41, 0x0e, 16, 0x86, 2)
	s.function(s.common("zRS", arm64LR, plt...), 0x1000, 0x100, 0x41, 0x0a, 0x10, 3, 1, 0x06, 0x0b)
	d := frameSection{debug: true}
	d.function(d.common("", amd64PC, 0x0c, amd64SP, 8), 0x1000, 0x1000)
	f.Add(s.b, d.b, words(64, map[int]uint64{0: 0x1020, 8: 0x1030}), false)
	f.Add(s.b, d.b, words(1024, map[int]uint64{0: 0x1020, arm64SignalRegisters: 0x1030}), true)
	f.Fuzz(func(t *testing.T, eh, debug, stack []byte, arm bool) {
		arch := AMD64
		if arm {
			arch = ARM64
		}
		m, _ := NewModule(arch, Section{0x1000, eh}, Section{0, debug}, func(start, end uint64) ([]byte, error) { return append(eh, debug...), nil })
		s := &Sample{Stack: stack, Module: func(uint64) (*Module, uint64) { return m, 0 }}
		for n := range uint64(registerCount) {
			s.Registers.Set(n, 0x8000+n)
		}
		for _, t := range m.tables {
			for _, e := range t.entries {
				t.row(&e, e.end()-1)
			}
		}
		s.Registers.Set(arch.sp(), 0x8000)
		s.Registers.Set(arch.pc(), 0x1010)
		if len(m.tables) > 0 && len(m.tables[0].entries) > 0 {
			s.Registers.Set(arch.pc(), m.tables[0].entries[0].start)
		}
		if chain, _ := New(arch).Unwind(nil, s, 100); len(chain) > 100 {
			t.Errorf("%d frames", len(chain))
		}
	})
}
