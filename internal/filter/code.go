package filter

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf/asm"
)

// Labels to which the code of an expression jumps.
const (
	keep = "keep"
	drop = "drop"
)

// code compiles an expression to instructions that jump to one of two labels. They load each field into R0 when they need it.
type code struct {
	load   func(*field) (asm.Instructions, error)
	labels int
}

// branches returns the code of a part of an expression. It jumps to label yes if the part is true, else to no.
func (c *code) branches(n *node, yes, no string) (asm.Instructions, error) {
	switch n.kind {
	case not:
		return c.branches(n.operands[0], no, yes)
	case all:
		return c.sequence(n.operands, func(next string) (string, string) { return next, no }, yes, no)
	case anyOf:
		return c.sequence(n.operands, func(next string) (string, string) { return yes, next }, yes, no)
	}
	return c.comparison(n, yes, no)
}

// sequence returns the code of several parts, one after the other. between returns the labels of a part that is not the last, given the
// label at which the next part begins. The last part jumps to yes or no.
func (c *code) sequence(parts []*node, between func(next string) (yes, no string), yes, no string) (asm.Instructions, error) {
	var all asm.Instructions
	label := ""
	for i, part := range parts {
		begins := label
		y, n := yes, no
		if i < len(parts)-1 {
			c.labels++
			label = fmt.Sprintf("term%d", c.labels)
			y, n = between(label)
		}
		instructions, err := c.branches(part, y, n)
		if err != nil {
			return nil, err
		}
		if begins != "" {
			instructions[0] = instructions[0].WithSymbol(begins)
		}
		all = append(all, instructions...)
	}
	return all, nil
}

var jumps = map[operator]asm.JumpOp{
	equal: asm.JEq, notEqual: asm.JNE, greater: asm.JGT, greaterOrEqual: asm.JGE, less: asm.JLT, lessOrEqual: asm.JLE, hasBits: asm.JSet,
}

func (c *code) comparison(n *node, yes, no string) (asm.Instructions, error) {
	instructions, err := c.load(n.field)
	if err != nil {
		return nil, err
	}
	jump := jumps[n.operator]
	if n.value <= math.MaxInt32 { // immediates are sign-extended
		instructions = append(instructions, jump.Imm(asm.R0, int32(n.value), yes))
	} else {
		instructions = append(instructions, asm.LoadImm(asm.R1, int64(n.value), asm.DWord), jump.Reg(asm.R0, asm.R1, yes))
	}
	return append(instructions, asm.Ja.Label(no)), nil
}

// withoutDetours removes jumps to the next instruction.
func withoutDetours(all asm.Instructions) asm.Instructions {
	kept := all[:0:0]
	for i, in := range all {
		detour := in.OpCode.JumpOp() == asm.Ja && i+1 < len(all) && in.Reference() == all[i+1].Symbol()
		if !detour {
			kept = append(kept, in)
		}
	}
	return kept
}

// narrowed returns code that extracts the bits of a field from the word in R0.
func (f *field) narrowed() (all asm.Instructions) {
	if f.extra != 0 { // two more bits, above the others
		all = append(all, asm.Mov.Reg(asm.R1, asm.R0), asm.RSh.Imm(asm.R1, int32(f.extra)), asm.And.Imm(asm.R1, 3), asm.LSh.Imm(asm.R1, int32(f.bits)))
	}
	if f.shift != 0 {
		all = append(all, asm.RSh.Imm(asm.R0, int32(f.shift)))
	}
	switch {
	case f.bits == 32:
		all = append(all, asm.Mov.Reg32(asm.R0, asm.R0))
	case f.bits != 0:
		all = append(all, asm.And.Imm(asm.R0, 1<<f.bits-1))
	}
	if f.extra != 0 {
		all = append(all, asm.Or.Reg(asm.R0, asm.R1))
	}
	return all
}
