// Package bpfprogram provides BPF programs for tests: one for profiles, which has source lines and spends its time in its sub-programs, and one
// that reads memory.
package bpfprogram

import (
	"fmt"

	"github.com/cilium/ebpf"
)

//go:generate go tool bpf2go -target bpfel spin ../../bpf/spin.bpf.c -- -mcpu=v3 -Wall -Werror

// Names in BTF of the functions that take the time. SpinShort calls Turn. SpinLong takes three times as long as Turn.
const (
	Spin      = "spin"
	SpinShort = "spin_short"
	SpinLong  = "spin_long"
	Turn      = "turn"
)

// Load loads the program.
func Load() (*ebpf.Program, error) {
	var o spinObjects
	if err := loadSpinObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the BPF program that spins: %w", err)
	}
	return o.Spin, nil
}

// Run runs the program a number of times.
func Run(p *ebpf.Program, times uint32) error {
	_, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: times})
	return err
}
