// Package chains gives samples user callchains that a BPF program unwinds by tables (bpf/chains.bpf.c, package userstack). The kernel runs
// the program at each overflow of an event, before it writes the sample. The program writes the chain to the ring that gets the sample, and
// Merge moves it from there into the sample.
//
// The package needs Linux 5.17, and root or CAP_BPF and CAP_PERFMON.
package chains

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

// Program is the loaded BPF program, with its unwind tables.
type Program struct {
	objects *ebpf.Collection
	tables  *userstack.Tables
	calls   *ebpf.Map // of type PROG_ARRAY: has the program that Attach attaches
}

// Load loads the program.
func Load(need userstack.Need, a *allowance.Allowance) (*Program, error) {
	if err := features.HaveProgramHelper(ebpf.PerfEvent, asm.FnLoop); errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("unwinding user stacks in the kernel needs Linux 5.17 (bpf_loop): %w", err)
	}
	p := &Program{}
	err := p.load(need, a)
	if err == nil {
		_, err = p.objects.Programs[chainsProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}})
	}
	if err != nil {
		return nil, errors.Join(explain(err), p.Close())
	}
	return p, nil
}

func (p *Program) load(need userstack.Need, a *allowance.Allowance) error {
	spec, err := loadChains()
	if err != nil {
		return err
	}
	userstack.DefaultLimits.Resize(spec)
	if err := errors.Join(kernel.PrepareReads(spec.Programs), spec.Variables[chainsVarIsArm64].Set(runtime.GOARCH == "arm64")); err != nil {
		return err
	}
	types, err := kernel.TypesOf(spec.Types)
	if err != nil {
		types = nil // the library searches elsewhere, and its error lists where
	}
	if p.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: types}}); err != nil {
		return err
	}
	if p.calls, err = ebpf.NewMap(&ebpf.MapSpec{Name: "bperf_unwinder", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}); err != nil {
		return err
	}
	if err := p.calls.Put(uint32(0), uint32(p.objects.Programs[chainsProgOnSample].FD())); err != nil {
		return err
	}
	p.tables, err = userstack.New(p.objects.Maps, p.objects.Variables[userstack.Wants], userstack.DefaultLimits, need, a)
	return err
}

// explain adds the missing capabilities to a permission error.
func explain(err error) error {
	const what = "load the BPF program that unwinds user stacks"
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. %s", what, err, kernel.Remedy("Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF"))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Attach makes the program run at the overflows of an event, and of the events that tasks inherit from it.
func (p *Program) Attach(e *perfevent.Event) error {
	if err := e.SetBPF(p.objects.Programs[chainsProgOnSample].FD()); err != nil {
		return fmt.Errorf("the kernel takes no BPF program on this event: %w", err)
	}
	return nil
}

// Calls returns a map of type PROG_ARRAY. In place of Attach, the program of an event can call its element 0 for each sample that it keeps. The
// kernel empties the map at Close.
func (p *Program) Calls() *ebpf.Map { return p.calls }

// Output makes the program write the chains of a CPU to an event: a software event bpf-output that is open for all tasks on that CPU.
func (p *Program) Output(cpu, fd int) error {
	if err := p.objects.Maps[chainsMapOutputs].Put(uint32(cpu), uint32(fd)); err != nil {
		return fmt.Errorf("let a BPF program write to the ring buffer of CPU %d: %w", cpu, err)
	}
	return nil
}

// Record applies a record of a task or a mapping to the tables. Update makes it known to the program.
func (p *Program) Record(v perfdata.Value) { p.tables.Record(v) }

// Prepare builds the tables of a command before it starts.
func (p *Program) Prepare(command string) error { return p.tables.Prepare(command) }

// Update builds tables for at most the time longest; with 0 it builds all that are missing.
func (p *Program) Update(longest time.Duration) error { return p.tables.Update(longest) }

// Stats returns what the tables had no room for.
func (p *Program) Stats() userstack.Stats { return p.tables.Stats() }

// Close unloads the program, which no event may use any more. p may be nil.
func (p *Program) Close() error {
	if p == nil {
		return nil
	}
	var err error
	if p.tables != nil {
		err = p.tables.Close()
	}
	if p.calls != nil {
		err = errors.Join(err, p.calls.Close())
	}
	if p.objects != nil {
		p.objects.Close()
	}
	return err
}
