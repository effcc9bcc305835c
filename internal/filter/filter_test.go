package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/perfdata"
)

func parse(t testing.TB, expr string) *Filter {
	t.Helper()
	f, err := Parse(expr)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{"pid==1", "pid == 1"},
		{" pid == 0x10 ", "pid == 16"},
		{"pid == 010", "pid == 10"},
		{"ip>0XffffffffffffffFF", "ip > 18446744073709551615"},
		{"tid!=1,cpu>2", "tid != 1 && cpu > 2"},
		{"tid>=1,cpu<=2||cpu<3", "tid >= 1 && (cpu <= 2 || cpu < 3)"},
		{"cpu==1&&uid==2||gid==3", "(cpu == 1 && uid == 2) || gid == 3"},
		{"cpu==1&&uid==2,gid==3", "(cpu == 1 && uid == 2) && gid == 3"},
		{"cpu==1&&(uid==2||gid==3)", "cpu == 1 && (uid == 2 || gid == 3)"},
		{"(((cpu==1)))", "cpu == 1"},
		{"!cpu==1", "!(cpu == 1)"},
		{"!!(cpu==1,!uid==2)", "!(!(cpu == 1 && !(uid == 2)))"},
		{"addr&0x10&&addr & 1", "addr & 16 && addr & 1"},
		{"weight1>1,ins_lat>2,retire_lat>3,p_stage_cyc>4", "weight > 1 && weight2 > 2 && weight3 > 3 && weight3 > 4"},
		{"code_pgsz==4096,data_pgsz==0", "code_page_size == 4096 && data_page_size == 0"},
		{"mem_op==load,mem_op&6", "mem_op == load && mem_op & 6"},
		{"mem_lvl!=na,mem_op!=na,mem_snoop==peer", "mem_lvl != na && mem_op != na && mem_snoop == peer"},
		{"mem_dtlb==l2_miss||mem_hops==hops3", "mem_dtlb == l2_miss || mem_hops == hops3"},
		{"cgroup==/a/b-c.slice,cpu==1", "cgroup == /a/b-c.slice && cpu == 1"},
		{`cgroup!="/a b,c"`, `cgroup != "/a b,c"`},
		{"bpf_prog==7||bpf_prog!=on_[a-c]?*", "bpf_prog == 7 || bpf_prog != on_[a-c]?*"},
		{"(bpf_prog==tag:0123456789abcdef)", "bpf_prog == tag:0123456789abcdef"},
	} {
		got := parse(t, tt.expr).String()
		if got != tt.want {
			t.Errorf("%s is read as %s, want %s", tt.expr, got, tt.want)
		}
		if again := parse(t, got).String(); again != got {
			t.Errorf("%s is read again as %s", got, again)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, tt := range []struct {
		expr string
		at   int
		want string
	}{
		{"", 0, "a term is expected"},
		{"  ", 2, "a term is expected"},
		{"pid", 3, "one of == !="},
		{"pid=1", 3, "one of == !="},
		{"pid&&1", 3, "one of == !="},
		{"pid==", 5, "pid is a number"},
		{"pid==-1", 5, "pid is a number"},
		{"pid==1x", 5, "pid is a number"},
		{"pid==0x", 5, "pid is a number"},
		{"pid==18446744073709551616", 5, "pid is a number from 0 to"},
		{"pid==1 tid==2", 7, "joined by"},
		{"pid==1|tid==2", 6, "joined by"},
		{"pid==1,", 7, "a term is expected"},
		{"pid==1||", 8, "a term is expected"},
		{"(pid==1", 0, "not closed"},
		{"(pid==1]", 7, "a parenthesis is open"},
		{"pid==1)", 6, "joined by"},
		{"()", 1, "a term is expected"},
		{"cpu==1 && pdi==1", 10, "did you mean pid"},
		{"comm==sh", 0, `no field "comm"`},
		{"mem_op==l1", 8, "mem_op is a number, or one of exec, load, na, pfetch, store"},
		{"cgroup>/a", 6, "compared by == or !="},
		{"cgroup==", 8, "a name or an ID"},
		{`cgroup==""`, 8, "a name or an ID"},
		{`cgroup=="/a`, 8, "quote is not closed"},
		{"bpf_prog==what:1", 10, `nothing is selected by "what"`},
		{"bpf_prog==[a", 10, "bracket is not closed"},
		{strings.Repeat("(", 1000) + "pid==1", 201, "within each other"},
		{strings.Repeat("!", 1000) + "pid==1", 201, "within each other"},
		{strings.Repeat("pid==1,", 3000), 7 * mostTerms, "more than 2000 terms"},
		{"pid==\xff", 5, "pid is a number"},
	} {
		_, err := Parse(tt.expr)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.At != tt.at || !strings.Contains(syntax.Msg, tt.want) {
			t.Errorf("%.40q: %.200v; want %q at %d", tt.expr, err, tt.want, tt.at)
		}
	}
	_, err := Parse("pid==1,\tdip==2")
	if err == nil || !strings.Contains(err.Error(), "at character 9: ") || !strings.HasSuffix(err.Error(), "\n  pid==1, dip==2\n          ^") {
		t.Errorf("it is shown as %v", err)
	}
	_, err = Parse("pid==1 日本")
	if err == nil || !strings.Contains(err.Error(), "at character 8: ") || !strings.HasSuffix(err.Error(), "\n  pid==1 日本\n         ^") {
		t.Errorf("it is shown as %v", err)
	}
}

// values are the values of a sample's fields.
type values map[*field]uint64

// holds evaluates an expression directly.
func (v values) holds(n *node) bool {
	each := func(o *node) bool { return v.holds(o) }
	switch n.kind {
	case not:
		return !v.holds(n.operands[0])
	case all:
		return !slices.ContainsFunc(n.operands, func(o *node) bool { return !each(o) })
	case anyOf:
		return slices.ContainsFunc(n.operands, each)
	}
	x, y := v[n.field], n.value
	return map[operator]bool{equal: x == y, notEqual: x != y, greater: x > y, greaterOrEqual: x >= y, less: x < y, lessOrEqual: x <= y,
		hasBits: x&y != 0}[n.operator]
}

// run interprets the code of an expression until it reaches keep or drop. It supports only the instructions that such code has.
func (v values) run(t testing.TB, f *Filter) (kept bool) {
	t.Helper()
	c := code{load: func(f *field) (asm.Instructions, error) {
		return asm.Instructions{asm.LoadImm(asm.R0, int64(v[f]), asm.DWord)}, nil
	}}
	body, err := c.branches(f.root, keep, drop)
	if err != nil {
		t.Fatal(err)
	}
	body = append(body, asm.Mov.Imm(asm.R0, 1).WithSymbol(keep), asm.Return(), asm.Mov.Imm(asm.R0, 0).WithSymbol(drop), asm.Return())
	body = withoutDetours(body)
	labels := make(map[string]int)
	for i, in := range body {
		if in.Symbol() != "" {
			if _, twice := labels[in.Symbol()]; twice {
				t.Fatalf("two places are called %s", in.Symbol())
			}
			labels[in.Symbol()] = i
		}
	}
	var r [16]uint64
	for at := 0; ; {
		in := body[at]
		operand := uint64(in.Constant)
		if !in.OpCode.IsDWordLoad() && in.OpCode.Source() == asm.RegSource {
			operand = r[in.Src]
		}
		x := r[in.Dst]
		jump := false
		switch op := in.OpCode; {
		case op.IsDWordLoad(), op.Class() == asm.ALU64Class && op.ALUOp() == asm.Mov:
			r[in.Dst] = operand
		case op.JumpOp() == asm.Exit:
			return r[0] == 1
		default:
			var known bool
			jump, known = map[asm.JumpOp]bool{asm.Ja: true, asm.JEq: x == operand, asm.JNE: x != operand, asm.JGT: x > operand,
				asm.JGE: x >= operand, asm.JLT: x < operand, asm.JLE: x <= operand, asm.JSet: x&operand != 0}[op.JumpOp()]
			if !known {
				t.Fatalf("%v is not expected", in)
			}
		}
		if !jump {
			at++
			continue
		}
		to, there := labels[in.Reference()]
		if !there || to <= at {
			t.Fatalf("%v goes back, or nowhere", in)
		}
		at = to
	}
}

// compare evaluates an expression with holds and with run, for values next to those in the expression.
func compare(t testing.TB, f *Filter) {
	t.Helper()
	var edges []uint64
	f.root.each(func(n *node) { edges = append(edges, n.value, n.value+1, n.value-1) })
	if len(edges) > 60 {
		edges = edges[:60]
	}
	edges = append(edges, 0, math.MaxUint64)
	for i := range min(4*len(edges), 40) {
		v := make(values)
		at := i
		f.root.each(func(n *node) {
			if _, known := v[n.field]; !known {
				v[n.field] = edges[at%len(edges)]
				at = 7*at + 3
			}
		})
		if got, want := v.run(t, f), v.holds(f.root); got != want {
			t.Fatalf("%v keeps a sample: %t, want %t", f, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for _, expr := range []string{
		"pid==1", "pid!=1", "pid>1", "pid>=1", "pid<1", "pid<=1", "pid&6",
		"ip==0xffffffff81000000", "ip!=0x80000000", "ip>=0x7fffffff", "ip<0x8000000000000000", "ip&0x8000000000000000",
		"pid==1,tid==2,cpu==3", "pid==1||tid==2||cpu==3", "pid==1,tid==2||cpu==3", "pid==1&&tid==2||cpu==3,uid==4",
		"!pid==1", "!(pid==1,tid==2)", "!(pid==1||!(tid==2&&cpu==3))||gid==5",
		"((pid==1||tid==2)&&(cpu==3||uid==4))||((pid==5||tid==6)&&(cpu==7||uid==8))",
	} {
		compare(t, parse(t, expr))
	}
}

func FuzzParse(f *testing.F) {
	for _, expr := range []string{"pid==1,tid==2||cpu!=3", "!(ip>=0x10&&addr&7)", "mem_op==load,mem_lvl!=l1", `cgroup=="/a b"||bpf_prog==name:x*`, "((", "uid==0x"} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		read, err := Parse(expr)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.At < 0 || syntax.At > len(expr) || err.Error() == "" {
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		text := read.String()
		again, err := Parse(text)
		if err != nil && !strings.Contains(err.Error(), "within each other") { // the printed expression has more parentheses
			t.Fatalf("%q is printed as %q: %v", expr, text, err)
		}
		if err == nil && again.String() != text {
			t.Fatalf("%q is printed as %q, and then as %q", expr, text, again)
		}
		compare(t, read)
	})
}

// calculate interprets an instruction that only changes a register.
func calculate(t *testing.T, in asm.Instruction, r *[16]uint64) {
	t.Helper()
	operand := uint64(in.Constant)
	if !in.OpCode.IsDWordLoad() && in.OpCode.Source() == asm.RegSource {
		operand = r[in.Src]
	}
	switch {
	case in.OpCode.IsDWordLoad():
		r[in.Dst] = operand
		return
	case !in.OpCode.Class().IsALU():
		t.Fatalf("%v is not expected", in)
	}
	switch in.OpCode.ALUOp() {
	case asm.Mov:
		r[in.Dst] = operand
		if in.OpCode.Class() == asm.ALUClass {
			r[in.Dst] &= math.MaxUint32
		}
	case asm.RSh:
		r[in.Dst] >>= operand
	case asm.LSh:
		r[in.Dst] <<= operand
	case asm.And:
		r[in.Dst] &= operand
	case asm.Or:
		r[in.Dst] |= operand
	default:
		t.Fatalf("%v is not expected", in)
	}
}

// TestValues interprets the code that writes fields, and checks each byte that it writes.
func TestValues(t *testing.T) {
	const word = 0xfedcba9876543210
	for name, tt := range map[string]struct {
		values Values
		want   string
	}{
		"none":            {nil, "................"},
		"whole":           {Values{{"data_src", 8, 8}}, "........\x10\x32\x54\x76\x98\xba\xdc\xfe"},
		"lower half":      {Values{{"phys_addr", 4, 4}}, "....\x10\x32\x54\x76........"},
		"narrowed":        {Values{{"weight", 0, 8}}, "\x10\x32\x54\x76\x00\x00\x00\x00........"},
		"narrowed, short": {Values{{"weight", 4, 4}, {"weight3", 12, 4}}, "....\x10\x32\x54\x76....\xdc\xfe\x00\x00"},
	} {
		code, err := tt.values.stores(func(f *field) (asm.Instructions, error) {
			whole := uint64(word)
			return append(asm.Instructions{asm.LoadImm(asm.R0, int64(whole), asm.DWord)}, f.narrowed()...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		memory := []byte("................")
		var r [16]uint64
		for i, in := range code {
			switch {
			case in.OpCode.JumpOp() == asm.Exit && i == len(code)-1:
			case in.OpCode.Class() == asm.StXClass && in.Dst == asm.R8:
				size := in.OpCode.Size().Sizeof()
				var bytes [8]byte
				binary.LittleEndian.PutUint64(bytes[:], r[in.Src])
				copy(memory[in.Offset:][:size], bytes[:])
			default:
				calculate(t, in, &r)
			}
		}
		if string(memory) != tt.want || r[asm.R0] != 0 {
			t.Errorf("%s: wrote %q and returned %d, want %q and 0", name, memory, r[asm.R0], tt.want)
		}
	}
}

func TestValuesSampleType(t *testing.T) {
	const weightStruct, dataSrc, physAddr, addr = 1 << 24, 1 << 15, 1 << 19, 1 << 3 // include/uapi/linux/perf_event.h
	for _, tt := range []struct {
		values Values
		want   perfdata.SampleType
	}{
		{nil, 0},
		{Values{{Field: "weight"}}, weightStruct},
		{Values{{Field: "data_src"}, {Field: "phys_addr"}}, dataSrc | physAddr | addr},
	} {
		if got := tt.values.SampleType(); got != tt.want {
			t.Errorf("%v: %#x, want %#x", tt.values, got, tt.want)
		}
	}
}

// TestNarrowed extracts the bits of memory accesses and weights from their words.
func TestNarrowed(t *testing.T) {
	const word = 2 | 5<<33 | 4<<19 | 1<<37 | 3<<38 | 2<<24 | 0x12<<26 | 2<<40 | 3<<43
	for name, want := range map[string]uint64{"mem_op": 2, "mem_lvl": 5, "mem_snoop": 4 | 96, "mem_remote": 1, "mem_lock": 2, "mem_dtlb": 0x12,
		"mem_blk": 2, "mem_hops": 3, "weight": word & math.MaxUint32, "weight2": word >> 32 & math.MaxUint16, "weight3": word >> 48, "ip": word} {
		var r [16]uint64
		r[asm.R0] = word
		for _, in := range byName[name].narrowed() {
			calculate(t, in, &r)
		}
		if r[0] != want {
			t.Errorf("%s is %#x, want %#x", name, r[0], want)
		}
	}
}

func ExampleSyntaxError() {
	_, err := Parse("pid == 7, cpus == 1")
	fmt.Println(err)
	// Output:
	// filter: at character 11: there is no field "cpus": did you mean cpu?
	//   pid == 7, cpus == 1
	//             ^
}
