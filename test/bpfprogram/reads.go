package bpfprogram

import (
	"errors"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// ReadAtGetsid loads a program of type tracepoint that reads a byte of the caller's memory at each call of getsid(2), until it is closed. What a
// breakpoint at that address counts then comes while the program runs. It needs tracefs.
func ReadAtGetsid(address uintptr) (io.Closer, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bperf_reads", Type: ebpf.TracePoint, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 1),
		asm.LoadImm(asm.R3, int64(address), asm.DWord),
		asm.FnProbeReadUser.Call(),
		asm.Mov.Imm(asm.R0, 1), // 0 keeps the event from others
		asm.Return(),
	}})
	if err != nil {
		return nil, err
	}
	attached, err := link.Tracepoint("syscalls", "sys_enter_getsid", p, nil)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return both{attached, p}, nil
}

type both struct {
	link    link.Link
	program *ebpf.Program
}

func (b both) Close() error { return errors.Join(b.link.Close(), b.program.Close()) }

// Read reads a byte once, also under the race detector, whose reads of its own a breakpoint would count.
//
//go:noinline
//go:norace
func Read(b *byte) byte { return *b }
