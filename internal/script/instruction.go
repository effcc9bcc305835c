package script

import (
	"encoding/hex"
	"strconv"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/replay"
)

// longestInstruction is the maximum length of an x86 instruction, in bytes.
const longestInstruction = 15

// instruction prints the instruction at the instruction pointer, as it is in the file: its length, or 0 if unknown, its bytes, and its
// text. As in perf, kernel instructions are left out.
func (t *text) instruction(item *replay.Item, fields field, out []byte) []byte {
	l, kind := t.IP(item), kindOf(item.Event)
	if known := t.insns[kind].get(l.Index); known != nil {
		return append(out, known...)
	}
	start := len(out)
	var instruction disasm.Instruction
	if t.disassemble != nil {
		if all := t.disassemble(l.Code(longestInstruction), l.Addr); len(all) > 0 && !isBad(all[0]) {
			instruction = all[0]
		}
	}
	code := instruction.Code
	if fields&fieldInstructionLength != 0 {
		out = strconv.AppendInt(append(out, " ilen: "...), int64(len(code)), 10)
	}
	if fields&fieldInstruction != 0 && len(code) > 0 {
		out = append(out, " insn:"...)
		for i := range code {
			out = hex.AppendEncode(append(out, ' '), code[i:i+1])
		}
	}
	if fields&fieldDisassembly != 0 && len(code) > 0 {
		out = append(append(out, "\t\t"...), instruction.Text...)
	}
	t.insns[kind].put(l.Index, out[start:])
	return out
}

// isBad reports whether an instruction is unknown.
func isBad(in disasm.Instruction) bool { return in.Text == "(bad)" }
