package program

import (
	"math"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/test/require"
)

// loadNested loads a program that has a loop, and calls a function that has one, too.
func loadNested(t *testing.T, outer, inner int32, linkage btf.FuncLinkage) (*ebpf.Program, []Target) {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "number", Type: number}}}
	code := loop(outer)
	code = append(code[:len(code)-1],
		asm.Mov.Imm(asm.R1, inner),
		asm.Call.Label("inner"),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R1, inner).WithSymbol("inner"), &btf.Func{Name: "inner", Type: proto, Linkage: linkage}),
		asm.Sub.Imm(asm.R1, 1).WithSymbol("again"),
		asm.JNE.Imm(asm.R1, 0, "again"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return())
	p, target := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: code})
	target.ByFunction = true
	sub := target
	sub.Function, sub.Sub = "inner", true
	return p, []Target{target, sub}
}

// TestFunctions counts a function's own instructions, and in the program these and the program's own.
func TestFunctions(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const times = 500
	for name, linkage := range map[string]btf.FuncLinkage{"global": btf.GlobalFunc, "static": btf.StaticFunc} {
		t.Run(name, func(t *testing.T) {
			least := func(outer, inner int32) (both [2]float64) {
				prog, targets := loadNested(t, outer, inner, linkage)
				c := tracing(t, "instructions", targets...)
				check(t, c.Enable())
				run(t, prog, times)
				check(t, c.Disable())
				for i := range both {
					r := read(t, c, i)
					if r.runs != times {
						t.Errorf("%s: %d runs, want %d", targets[i], r.runs, times)
					}
					both[i] = float64(r.events[0].Runs.Min)
				}
				return both
			}
			base, more := least(1, 1), least(10_001, 20_001)
			for i, want := range [2]float64{30_000 * loopInstructions, 20_000 * loopInstructions} {
				if got := more[i] - base[i]; math.Abs(got-want) > want/100 {
					t.Errorf("function %d: %v instructions more, want %v", i, got, want)
				}
			}
		})
	}
}

// TestCallback counts in a function that the kernel calls.
func TestCallback(t *testing.T) {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{
		{Name: "index", Type: number}, {Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	const calls, times = 5, 20
	code := loop(0)
	callback := asm.LoadImm(asm.R2, -1, asm.DWord)
	callback.Src = asm.PseudoFunc
	code = append(code[:len(code)-1],
		asm.Mov.Imm(asm.R1, calls),
		callback.WithReference("inner"),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol("inner"), &btf.Func{Name: "inner", Type: proto, Linkage: btf.StaticFunc}),
		asm.Return())
	prog, target := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: code})
	sub := target
	sub.Function, sub.ByFunction, sub.Sub = "inner", true, true
	c := tracing(t, "cpu-clock", target, sub)
	check(t, c.Enable())
	run(t, prog, times)
	check(t, c.Disable())
	if whole, inner := read(t, c, 0), read(t, c, 1); whole.runs != times || inner.runs != times*calls {
		t.Errorf("%d runs, and %d of the callback; want %d and %d", whole.runs, inner.runs, times, times*calls)
	}
}

// TestFunctionsUntraced reports no statistics for a function that cannot be traced, but those of its program.
func TestFunctionsUntraced(t *testing.T) {
	prog, targets := loadNested(t, 1, 1, btf.GlobalFunc)
	for i := range targets {
		targets[i].JITed = false
	}
	c := open(t, "cpu-clock", targets...)
	check(t, c.Enable())
	run(t, prog, 3)
	check(t, c.Disable())
	if r := read(t, c, 0); r.runs != 3 {
		t.Errorf("%d runs, want 3", r.runs)
	}
	if c.ErrAt(c.events, 0) != nil || c.ErrAt(c.events, 1) == nil || c.Err(c.events) != nil || c.Err(0) == nil {
		t.Errorf("runs: %v, of the function: %v", c.ErrAt(c.events, 0), c.ErrAt(c.events, 1))
	}
	alone := open(t, "cpu-clock", targets[1])
	if alone.Err(0) == nil || alone.Err(alone.events) == nil {
		t.Error("a function alone has statistics")
	}
}
