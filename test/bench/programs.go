package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/test/apt"
)

// programs compares listing BPF programs, after it has loaded n of them. It also compares `version`, a command that does
// nothing.
func (b *bench) programs(n int) error {
	if err := apt.Need(map[string]string{b.bpftool: "bpftool"}); err != nil {
		return err
	}
	process, err := startHelper(programsVariable, n)
	if err != nil {
		return err
	}
	return errors.Join(b.compareLists(n), process.stop())
}

func (b *bench) compareLists(n int) error {
	printHeader("bpftool")
	for _, c := range []struct {
		name       string
		ours, tool []string
		aim        float64 // ratio of peak memory to that of a bpftool that does not look for holders; 0 for none
	}{
		{"version", []string{"version"}, []string{"version"}, 2},
		{fmt.Sprintf("prog list, %d programs", n), []string{"prog", "list"}, []string{"prog"}, 2.5},
		{fmt.Sprintf("prog list --json, %d programs", n), []string{"prog", "list", "--json"}, []string{"--json", "prog"}, 0},
	} {
		ours, theirs, err := alternate(b.runs, append([]string{b.bperf}, c.ours...), append([]string{b.bpftool}, c.tool...))
		if err != nil {
			return err
		}
		printCosts(c.name, ours, theirs, aim{peak, c.aim})
	}
	printHeader("floor")
	if err := b.compareFloor("version", b.runs, []string{"version"}, "imports"); err != nil {
		return err
	}
	return b.compareFloor(fmt.Sprintf("prog list, %d programs", n), b.runs, []string{"prog", "list"}, "programs")
}

// mostFreed is the largest number of programs that may wait to be freed at once: hundreds can stop a kernel (docs/kernel-notes.md).
const mostFreed = 32

// holdPrograms loads n programs with BTF, and a map for each ten of them, and holds them. Every other program has a longer name than the
// kernel keeps outside of BTF.
func holdPrograms(n int) (err error) {
	var loaded []*ebpf.Program
	defer func() {
		for i, p := range loaded {
			err = errors.Join(err, p.Close())
			if i%mostFreed == mostFreed-1 {
				err = errors.Join(err, kernel.WaitForBPF())
				time.Sleep(10 * time.Millisecond) // for the work that frees them
			}
		}
	}()
	var m *ebpf.Map
	for i := range n {
		if i%10 == 0 {
			m, err = ebpf.NewMap(&ebpf.MapSpec{Name: "bench", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
			if err != nil {
				return err
			}
			defer m.Close()
		}
		name := "bench"
		if i%2 == 1 {
			name = "bench_with_a_long_name"
		}
		p, err := loadProgram(name, m)
		if err != nil {
			return err
		}
		loaded = append(loaded, p)
	}
	hold()
	return nil
}

func loadProgram(name string, m *ebpf.Map) (*ebpf.Program, error) {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	function := &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMapPtr(asm.R1, m.FD()).WithSymbol(name), function),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
}
