package top

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
	countprogram "github.com/bperf/bperf/internal/count/program"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func rowOf(r *Reading, id uint64) *Row {
	for i := range r.Rows {
		if r.Rows[i].ID == id {
			return &r.Rows[i]
		}
	}
	return nil
}

// TestTasks observes a process that comes, runs and goes.
func TestTasks(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	tasks, err := OpenTasks(process.ByProcess, list(t, "syscalls:sys_enter_getppid,page-faults"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tasks.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.Program{Body: program.GetPPID, Times: 1000, Wait: true}.Write(t))
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := uint64(cmd.Process.Pid)
	next := func() *Reading {
		t.Helper()
		r, err := tasks.Next()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	calls := 0.0
	count := func(r *Reading) {
		if row := rowOf(r, id); row != nil {
			calls += row.Cells[2].Value * r.Window.Seconds()
		}
	}
	count(next())
	if calls != 0 {
		t.Errorf("%v calls before it ran", calls)
	}
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	r := next()
	count(r)
	if calls < 999.9 || calls > 1000.1 { // it was divided and multiplied
		t.Errorf("%v calls, want 1000; rows %v", calls, texts(r.Rows))
	}
	if row := rowOf(next(), id); row != nil {
		t.Errorf("it is there still: %v", row)
	}
	if _, known := tasks.before[id]; known {
		t.Error("it is not forgotten")
	}
}

// TestPrograms counts the instructions of a program whose loop is 1000 rounds long.
func TestPrograms(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	function := &btf.Func{Name: "bperf_top_loops", Type: proto, Linkage: btf.GlobalFunc}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bperf_top_loops", Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R1, 1000).WithSymbol("bperf_top_loops"), function),
		asm.Sub.Imm(asm.R1, 1).WithSymbol("again"),
		asm.JNE.Imm(asm.R1, 0, "again"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	selector, err := bpfprog.Parse("name:bperf_top_loops")
	if err != nil {
		t.Fatal(err)
	}
	targets := func() ([]countprogram.Target, error) {
		return []countprogram.Target{{ID: uint32(id), Name: "bperf_top_loops", Function: "bperf_top_loops", JITed: true}}, nil
	}
	programs, missing, err := OpenPrograms(selector, list(t, "cycles,instructions"), targets)
	if err != nil || missing != nil {
		t.Fatal(err, missing)
	}
	defer func() {
		if err := programs.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, runs := range []float64{50, 1} {
		for range int(runs) {
			if _, err := prog.Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := programs.Next()
		if err != nil {
			t.Fatal(err)
		}
		row := rowOf(r, uint64(id))
		if row == nil {
			t.Fatalf("rows %v", texts(r.Rows))
		}
		// The JIT compiler of arm64 makes four instructions of a round. The probes themselves take some, too.
		cycles, instructions, ipc := row.Cells[3].Value, row.Cells[4].Value, row.Cells[5].Value
		if row.Cells[1].Value != runs || instructions < 4000 || instructions > 4500 || cycles < 4000 || ipc <= 0 || ipc > 1.1 {
			t.Errorf("%v: %v instructions a run, IPC %v; want 4000 and what the probes take, in %v runs", texts(r.Rows), instructions, ipc, runs)
		}
	}
	all := programs.Distributions(uint64(id))
	if len(all) != 2 || all[1].Event.Name != "instructions" || all[1].Runs.Counted != 51 || all[1].Runs.Min < 4000 {
		t.Errorf("distributions %+v", all)
	}
	if all := programs.Distributions(1 << 31); all != nil {
		t.Errorf("distributions of no program: %+v", all)
	}
}

// TestNoTargets has events, and no program to count them in.
func TestNoTargets(t *testing.T) {
	require.Root(t)
	selector, err := bpfprog.Parse("name:bperf_top_none")
	if err != nil {
		t.Fatal(err)
	}
	programs, _, err := OpenPrograms(selector, list(t, "cpu-clock"), func() ([]countprogram.Target, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer programs.Close()
	if r, err := programs.Next(); err != nil || len(r.Rows) != 0 {
		t.Errorf("%v, %v", err, r)
	}
}
