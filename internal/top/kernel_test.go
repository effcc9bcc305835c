package top

import (
	"context"
	"fmt"
	"io"
	"math"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
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

// TestTasks observes a process that starts, runs and ends.
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.Program{Body: program.GetPPID, Times: 1000, Wait: true}.Write(t))
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := uint64(cmd.Process.Pid)
	next := func() *Reading { return nextOf(t, tasks) }
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
	id := idOf(t, prog)
	selector, err := bpfprog.Parse("name:bperf_top_loops")
	if err != nil {
		t.Fatal(err)
	}
	programs, missing, err := OpenPrograms(selector, list(t, "cycles,instructions"))
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
		r, err := programs.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		row := rowOf(r, id)
		if row == nil {
			t.Fatalf("rows %v", texts(r.Rows))
		}
		// The JIT compiler of arm64 makes three instructions of a round. The probes themselves take some hundred, and interrupts occur in
		// some of the runs: on Linux 7.2 timers fire soon after a system call.
		cycles, instructions, ipc := row.Cells[3].Value, row.Cells[4].Value, row.Cells[5].Value
		if math.Round(row.Cells[1].Value*r.Window.Seconds()) != runs || instructions < 3000 || instructions > 30_000 || cycles < 3000 || ipc <= 0 || ipc > 1.1 {
			t.Errorf("%v: %v instructions a run, IPC %v; want 3000 and what the probes take, in %v runs", texts(r.Rows), instructions, ipc, runs)
		}
	}
	all := programs.Distributions(id)
	if len(all) != 2 || all[1].Event.Name != "instructions" || all[1].Runs.Counted != 51 || all[1].Runs.Min < 3000 || all[1].Runs.Min > 4000 {
		t.Errorf("distributions %+v", all)
	}
	if all := programs.Distributions(1 << 31); all != nil {
		t.Errorf("distributions of no program: %+v", all)
	}
}

// TestProgramsComeAndGo counts in programs that are loaded after the start, and checks that it does not keep them from being unloaded.
func TestProgramsComeAndGo(t *testing.T) {
	require.Root(t)
	name := fmt.Sprintf("t%d", time.Now().UnixNano()%1e9)
	selector, err := bpfprog.Parse("name:" + name)
	if err != nil {
		t.Fatal(err)
	}
	programs, _, err := OpenPrograms(selector, list(t, "cpu-clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := programs.Close(); err != nil {
			t.Error(err)
		}
	}()
	next := func() *Reading { return nextOf(t, programs) }
	if r := next(); len(r.Rows) != 0 {
		t.Errorf("before any was loaded: %v", texts(r.Rows))
	}
	var ids []uint64
	for _, times := range []uint32{5, 7} { // one beside the other
		prog := loadNamed(t, name)
		defer prog.Close()
		ids = append(ids, idOf(t, prog))
		next() // sees it for the first time
		if _, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: times}); err != nil {
			t.Fatal(err)
		}
		r := next()
		row := rowOf(r, ids[len(ids)-1])
		if row == nil {
			t.Fatalf("rows %v", texts(r.Rows))
		}
		runs := math.Round(row.Cells[1].Value * r.Window.Seconds())
		if untraced := programs.cost.untraced; untraced > 0 {
			if require.IsGuest() {
				t.Fatal(programs.cost.why)
			}
			t.Skip(programs.cost.why)
		}
		if runs != float64(times) || row.Cells[3].Text == "-" {
			t.Errorf("%v: %v runs, want %d, and cpu-clock", texts(r.Rows), runs, times)
		}
		if d := programs.Distributions(ids[len(ids)-1]); len(d) != 1 || d[0].Runs.Counted != uint64(times) {
			t.Errorf("distributions %+v, want %d runs", d, times)
		}
		if len(ids) == 2 {
			if d := programs.Distributions(ids[0]); len(d) != 1 || d[0].Runs.Counted != 5 {
				t.Errorf("distributions of the first: %+v", d)
			}
			prog.Close()
		}
	}
	for deadline := time.Now().Add(time.Minute); rowOf(next(), ids[1]) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second is not unloaded")
		}
	}
	if d := programs.Distributions(ids[1]); d != nil {
		t.Errorf("distributions of the one that has gone: %+v", d)
	}
	if d := programs.Distributions(ids[0]); len(d) != 1 || d[0].Runs.Counted != 5 {
		t.Errorf("distributions of the one that stays: %+v", d)
	}
}

// loadNamed loads a socket filter that does nothing.
func loadNamed(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	function := &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol(name), function), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func idOf(t *testing.T, p *ebpf.Program) uint64 {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return uint64(id)
}

// nextOf returns the next reading of a source.
func nextOf(t *testing.T, s Source) *Reading {
	t.Helper()
	r, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}
