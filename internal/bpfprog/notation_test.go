package bpfprog

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/test/require"
)

// raw is struct bpf_insn, without any idea of what is valid.
type raw struct {
	code, dst, src uint8
	off            int16
	imm            int32
}

func assemble(code []raw) []byte {
	var all []byte
	for _, i := range code {
		all = append(all, i.code, i.dst|i.src<<4)
		all = binary.LittleEndian.AppendUint16(all, uint16(i.off))
		all = binary.LittleEndian.AppendUint32(all, uint32(i.imm))
	}
	return all
}

// Common instructions.
var (
	random = raw{0x85, 0, 0, 0, 7} // r0 is any number
	exit   = raw{0x95, 0, 0, 0, 0}
)

func set(dst uint8, imm int32) raw { return raw{0xb7, dst, 0, 0, imm} }
func move(dst, src uint8) raw      { return raw{0xbf, dst, src, 0, 0} }
func between(code ...raw) []raw {
	return append(append([]raw{random, move(6, 0)}, code...), set(0, 0), exit)
}
func onStack(code ...raw) []raw {
	return between(append([]raw{{0x7a, 10, 0, -8, 0}, {0x7a, 10, 0, -16, 9}}, code...)...)
}
func imm32(code uint8, n int32) raw { return raw{code, 6, 0, 0, n} }
func regs(code uint8) raw           { return raw{code, 6, 0, 0, 0} }

// everyOpcode are programs that together have every opcode, with the first kernel that takes them.
func everyOpcode(mapFD, arenaFD int) []notation {
	var alu, jumps []raw
	for op := range uint8(12) {
		if op == 8 {
			alu = append(alu, raw{0x87, 6, 0, 0, 0}, raw{0x84, 6, 0, 0, 0})
			continue
		}
		for _, class := range []uint8{4, 7} {
			alu = append(alu, imm32(op<<4|class, 7), regs(op<<4|8|class), move(6, 0))
		}
	}
	alu = append(alu, imm32(0xc7, 3), regs(0xcf), imm32(0xc4, 3), regs(0xcc), imm32(0x07, -3))
	for _, size := range []int32{16, 32, 64} {
		alu = append(alu, imm32(0xd4, size), imm32(0xdc, size))
	}
	for op := uint8(1); op <= 13; op++ {
		if op == 8 || op == 9 {
			continue
		}
		for _, class := range []uint8{5, 6} {
			jumps = append(jumps, random, raw{op<<4 | class, 0, 0, 1, -2}, move(6, 0), random, raw{op<<4 | 8 | class, 0, 6, 1, 0}, move(6, 0))
		}
	}
	jumps = append(jumps, raw{0x05, 0, 0, 0, 0})
	var memory, skb, atomic, signed []raw
	for _, size := range []uint8{0x00, 0x08, 0x10, 0x18} {
		memory = append(memory, raw{0x62 | size, 10, 0, -8, -5}, raw{0x63 | size, 10, 6, -16, 0}, raw{0x61 | size, 7, 10, -16, 0})
		if size != 0x18 {
			skb = append(skb, raw{0x20 | size, 0, 0, 0, 12}, raw{0x40 | size, 0, 8, 0, -12})
			signed = append(signed, raw{0x81 | size, 7, 10, -8, 0})
		}
	}
	for _, size := range []uint8{0x00, 0x18} {
		for _, op := range []int32{0x00, 0x40, 0x50, 0xa0, 0x01, 0x41, 0x51, 0xa1, 0xe1, 0xf1} {
			atomic = append(atomic, raw{0xc3 | size, 10, 6, -8, op})
		}
	}
	load, store := raw{0xdb, 6, 10, -8, 0x100}, raw{0xdb, 10, 6, -8, 0x110}
	return []notation{
		{5, 1, ebpf.SocketFilter, between(alu...)},
		{5, 1, ebpf.SocketFilter, between(jumps...)},
		{5, 1, ebpf.SocketFilter, onStack(memory...)},
		{5, 1, ebpf.SocketFilter, append([]raw{move(6, 1), set(8, 20)}, append(skb, set(0, 0), exit)...)},
		{5, 1, ebpf.SocketFilter, between(raw{0x18, 1, 0, 0, 0x1234567}, raw{0, 0, 0, 0, -1}, raw{0x18, 1, 1, 0, int32(mapFD)}, raw{},
			raw{0x18, 1, 2, 0, int32(mapFD)}, raw{0, 0, 0, 0, 4})},
		{5, 1, ebpf.SocketFilter, []raw{{0x85, 0, 1, 0, 1}, exit, set(0, 0), exit}},
		{5, 12, ebpf.SocketFilter, onStack(atomic...)},
		{6, 6, ebpf.SocketFilter, onStack(append(signed, raw{0xbf, 7, 6, 8, 0}, raw{0xbf, 7, 6, 16, 0}, raw{0xbf, 7, 6, 32, 0}, raw{0xbc, 7, 6, 8, 0},
			raw{0xbc, 7, 6, 16, 0}, raw{0x37, 6, 0, 1, 3}, raw{0x3f, 6, 0, 1, 0}, raw{0x97, 6, 0, 1, 3}, raw{0x9f, 6, 0, 1, 0}, raw{0x34, 6, 0, 1, 3},
			raw{0x3c, 6, 0, 1, 0}, raw{0xd7, 6, 0, 0, 16}, raw{0xd7, 6, 0, 0, 32}, raw{0xd7, 6, 0, 0, 64}, raw{0x06, 0, 0, 0, 0})...)},
		{6, 9, ebpf.SocketFilter, between(raw{0xe5, 0, 0, 1, 0}, raw{0x05, 0, 0, -2, 0})},
		{6, 9, ebpf.Syscall, []raw{{0x18, 1, 1, 0, int32(arenaFD)}, {}, set(6, 0), {0xbf, 7, 6, 1, 1}, {0xbf, 6, 7, 1, 1 << 16}, set(0, 0), exit}},
		{6, 15, ebpf.SocketFilter, onStack(load, store)},
	}
}

type notation struct {
	major, minor int
	kind         ebpf.ProgramType
	code         []raw
}

var verified = regexp.MustCompile(`(?m)^(\d+): \(([0-9a-f]{2})\) (.*?)(?: +;.*)?$`)

// TestNotation loads programs with every opcode, and compares our text with the verifier's log.
func TestNotation(t *testing.T) {
	require.Root(t)
	array := newMap(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	arena := -1
	if kernelAtLeast(t, 6, 9) {
		arena = newMap(t, &ebpf.MapSpec{Type: ebpf.Arena, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE, MapExtra: 1 << 44}).FD()
	}
	for n, test := range everyOpcode(array.FD(), arena) {
		if !kernelAtLeast(t, test.major, test.minor) {
			continue
		}
		code := assemble(test.code)
		log := verify(t, test.kind, code)
		logged := make(map[int][]string)
		for _, m := range verified.FindAllStringSubmatch(log, -1) {
			slot, _ := strconv.Atoi(m[1])
			logged[slot] = m[2:]
		}
		for _, b := range disasm.DecodeBPF(code) {
			want, text := logged[b.Slot], b.String()
			switch {
			case want == nil:
				t.Errorf("program %d: the verifier has not printed instruction %d, %s:\n%s", n, b.Slot, text, log)
			case b.IsWide() && b.Src != 0: // the verifier prints the map's address
				text, want[1] = text[:5], want[1][:5]
				fallthrough
			default:
				if opcode, _ := strconv.ParseUint(want[0], 16, 8); text != want[1] || uint8(opcode) != b.Code {
					t.Errorf("program %d, instruction %d: (%02x) %s, want (%s) %s", n, b.Slot, b.Code, text, want[0], want[1])
				}
			}
		}
	}
}

func newMap(t *testing.T, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// verify loads a program and returns what the verifier has printed of its instructions.
func verify(t *testing.T, kind ebpf.ProgramType, code []byte) string {
	t.Helper()
	log, license := make([]byte, 1<<20), []byte("GPL\x00")
	attr := struct {
		kind, count       uint32
		code, license     unsafe.Pointer
		logLevel, logSize uint32
		log               unsafe.Pointer
		version, flags    uint32
	}{kind: uint32(kind), count: uint32(len(code) / 8), code: start(code), license: start(license),
		logLevel: 2, logSize: uint32(len(log)), log: start(log)}
	if kind == ebpf.Syscall {
		attr.flags = unix.BPF_F_SLEEPABLE
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	for err == unix.EAGAIN { // a signal of Go's runtime
		fd, err = bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	}
	runtime.KeepAlive(log)
	if err != nil {
		t.Fatalf("load: %v\n%s", err, text(log))
	}
	closeFile(fd)
	return text(log)
}

// TestHelper compares the names of helpers with the kernel's BTF.
func TestHelper(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skip(err)
	}
	var numbers *btf.Enum
	if err := spec.TypeByName("bpf_func_id", &numbers); err != nil {
		t.Fatal(err)
	}
	for _, v := range numbers.Values {
		want := "bpf" + v.Name[len("BPF_FUNC"):]
		if got := disasm.Helper(int32(v.Value)); got != want && v.Value != 0 && v.Name != "__BPF_FUNC_MAX_ID" {
			t.Errorf("helper %d is %s, want %s", v.Value, got, want)
		}
	}
}

// TestTranslatedNames wants the names of the sub-program, the helper, the kfunc, the map and the variable that instructions refer to.
func TestTranslatedNames(t *testing.T) {
	require.Root(t)
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	variable := func(name string) *btf.Var { return &btf.Var{Name: name, Type: number, Linkage: btf.GlobalVar} }
	section := &btf.Datasec{Name: ".bss", Size: 12, Vars: []btf.VarSecinfo{
		{Type: variable("first"), Offset: 0, Size: 4}, {Type: variable("second"), Offset: 4, Size: 4}}}
	globals := newMap(t, &ebpf.MapSpec{Name: ".bss", Type: ebpf.Array, KeySize: 4, ValueSize: 12, MaxEntries: 1,
		Key: &btf.Void{}, Value: section})
	plain := newMap(t, &ebpf.MapSpec{Name: "plain", Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 100})
	code := twoFunctions()
	extra := asm.Instructions{asm.FnKtimeGetNs.Call(), asm.LoadMapPtr(asm.R1, plain.FD())}
	for _, offset := range []uint32{0, 6, 8} {
		extra = append(extra, asm.LoadMapValue(asm.R1, globals.FD(), offset))
	}
	want := []string{"call pc+13#inner_work", "call bpf_ktime_get_ns#5", "plain", ".bss first", ".bss second+2", ".bss"}
	if kernelAtLeast(t, 6, 2) {
		for _, name := range []string{"bpf_rcu_read_lock", "bpf_rcu_read_unlock"} {
			extra = append(extra, asm.Instruction{OpCode: asm.Call.Op(asm.ImmSource), Src: asm.PseudoKfuncCall, Constant: int64(kfunc(t, name))})
			want = append(want, "call "+name)
		}
	} else {
		want[0] = "call pc+11#inner_work"
	}
	code = append(append(code[:1:1], extra...), code[1:]...)
	_, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: code})
	c, err := ReadCode(read(t, id), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := NameCalls([]*Code{c}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range c.Translated {
		switch {
		case i.Map != "":
			got = append(got, strings.TrimSpace(i.Map+" "+i.Variable))
		case i.Opcode == 0x85:
			got = append(got, i.Text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	details, err := ReadMapDetails(append(read(t, id).MapIDs, 1<<31-1))
	if err != nil || len(details) != 2 {
		t.Fatalf("maps %+v, %v", details, err)
	}
	for _, m := range details {
		shape := fmt.Sprint(m.Name, " ", m.Type, " ", m.KeySize, " ", m.ValueSize, " ", m.MaxEntries)
		if shape != ".bss array 4 12 1" && shape != "plain hash 4 8 100" || m.Memlock == 0 {
			t.Errorf("map %s with %d bytes", shape, m.Memlock)
		}
	}
}

// kfunc returns the type of a function in the kernel's BTF.
func kfunc(t *testing.T, name string) btf.TypeID {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var f *btf.Func
	if err := spec.TypeByName(name, &f); err != nil {
		t.Fatal(err)
	}
	id, err := spec.TypeID(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
