package script

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

const (
	// maxBlock is the maximum size of a block that is printed, in bytes, as in perf.
	maxBlock = 16<<10 - longestInstruction
	// maxBlocksCode is the maximum number of bytes of code that is printed of the blocks of a sample. Without it, a small recording could
	// have a sample that fills the memory: a sample can have thousands of branches.
	maxBlocksCode = 64 << 10
	// maxBlockSamples is the maximum number of samples whose blocks are in memory as text.
	maxBlockSamples = 32
	// missingBranch is the number of bytes after the last recorded branch in which a branch that the processor did not record is searched.
	missingBranch = 128
	// flagColumn is the width of the instruction before the flags of a branch.
	flagColumn = 30
)

// blocks prints the blocks of a sample: the instructions from the target of each branch to the next branch.
type blocks struct {
	*text
	item   *replay.Item
	fields field
	at     *replay.Location // of an address in the current block
	atIP   uint64           // that address in memory
	headed *replay.Location // of the last heading; nil if there was none
	cycles uint64           // of the branches so far
	left   uint64           // number of bytes of code that may still be printed
	full   bool             // a block was longer than left
}

// blocks prints the instructions that ran between the branches of a sample, the oldest first, and those from the last branch to the sample.
func (t *text) blocks(item *replay.Item, fields field, out []byte) []byte {
	branches := item.Sample.Branches
	if len(branches) == 0 {
		return out
	}
	b := &blocks{text: t, item: item, fields: fields, left: maxBlocksCode}
	out = append(out, '\n')
	oldest := &branches[len(branches)-1]
	if all, _ := b.code(oldest.From, oldest.From); len(all) > 0 { // it is unknown where its block begins
		out = b.heading(oldest.From, out)
		out = b.branch(all[0], oldest, 0, out)
	}
	for i := len(branches) - 2; i >= 0; i-- {
		start, end := branches[i+1].To, branches[i].From
		all, crosses := b.code(start, end)
		if crosses && i > 0 { // the processor did not record how the kernel was entered or left
			i--
			end = branches[i].From
			all, _ = b.code(start, end)
		}
		if b.full {
			return append(out, "\t... more than 64 KiB of code ...\n"...)
		}
		if len(all) > 0 {
			out = b.block(all, start, &branches[i], end, out)
		}
	}
	if branches[0].From == item.Sample.IP || branches[0].Flags.Abort() {
		return out
	}
	return b.last(branches[0].To, out)
}

// code returns the instructions from start to the one at end, and some that follow. It returns none if they are not in a file, and if the
// block is too long. The second result reports whether the block begins in the kernel and ends outside, or the other way round.
func (b *blocks) code(start, end uint64) (all []disasm.Instruction, crosses bool) {
	if start == 0 || end == 0 {
		return nil, false
	}
	if start>>63 != end>>63 {
		return nil, true
	}
	if end-start > maxBlock || b.disassemble == nil { // the difference is large if end is before start
		return nil, false
	}
	if b.full = end-start > b.left; b.full {
		return nil, false
	}
	b.at, b.atIP = b.Branch(b.item, start), start
	code := b.at.Code(end - start + longestInstruction)
	b.left -= min(b.left, uint64(len(code)))
	return b.disassemble(code, start), false
}

// block prints the instructions of a block and the branch at its end.
func (b *blocks) block(all []disasm.Instruction, start uint64, branch *perfdata.Branch, end uint64, out []byte) []byte {
	at := start
	for i, in := range all {
		at = in.Address
		out = b.heading(at, out)
		if at == end {
			return b.branch(in, branch, i+1, out)
		}
		out = b.line(in, out)
		if isBad(in) {
			break
		}
		out = b.sourceText(at, out)
		at += uint64(len(in.Code))
	}
	if at != end {
		out = append(out, "\tmismatch of LBR data and executable\n"...)
	}
	return out
}

// last prints the instructions from the target of the last branch to the sample.
func (b *blocks) last(start uint64, out []byte) []byte {
	ip := b.item.Sample.IP
	end := ip
	if end < start {
		end = start + missingBranch
	}
	all, _ := b.code(start, end)
	b.at, b.atIP = b.Branch(b.item, start), start
	out = b.heading(start, out)
	if len(all) == 0 {
		if all, _ = b.code(ip, ip); len(all) > 0 {
			out = b.sourceText(ip, b.line(all[0], out))
		}
		return out
	}
	for _, in := range all {
		if in.Address > end {
			break
		}
		out = b.line(in, out)
		if isBad(in) {
			break
		}
		if in.Transfers && in.Address != ip {
			return append(out, "\t... not reaching sample ...\n"...)
		}
		out = b.sourceText(in.Address, out)
	}
	return out
}

// heading prints the symbol at an address of the current block, if it is not that of the last heading.
func (b *blocks) heading(ip uint64, out []byte) []byte {
	if ip == 0 {
		return out
	}
	addr := b.at.Addr + ip - b.atIP
	if h := b.headed; h != nil && h.DSO == b.at.DSO && addr >= h.Symbol.Start && addr < h.Symbol.End {
		return out
	}
	if ip != b.atIP && b.at.Symbol != nil { // a replay keeps all locations, so code without symbols has one for a block
		b.at, b.atIP = b.Branch(b.item, ip), ip
	}
	if b.at.Symbol == nil {
		return out
	}
	b.headed = b.at
	out = appendName(append(out, '\t'), b.at.Symbol.Name, b.at.Addr-b.at.Symbol.Start)
	if b.fields&fieldSourceLine != 0 {
		out = b.lineOf(exactly(b.at), append(out, '\t'))
	}
	return append(out, '\n')
}

// appendName prints a symbol and the distance from its start.
func appendName(out []byte, name string, offset uint64) []byte {
	out = printable.Append(out, name)
	if offset > 0 {
		out = strconv.AppendUint(append(out, '+'), offset, 10)
	}
	return append(out, ':')
}

// bytes prints the address and the bytes of an instruction, these in width columns.
func (b *blocks) bytes(in disasm.Instruction, width int, out []byte) []byte {
	out = fmt.Appendf(out, "\t%016x\t", in.Address)
	start := len(out)
	if isBad(in) {
		out = append(out, "<bad>"...)
	} else {
		out = append(out, "insn: "...)
		for i := range in.Code {
			out = append(hex.AppendEncode(out, in.Code[i:i+1]), ' ')
		}
	}
	out = printable.AlignLeft(out, start, width)
	if b.fields&fieldBlockLengths != 0 {
		length := len(in.Code)
		if isBad(in) {
			length = 0
		}
		out = strconv.AppendInt(append(out, "\tilen: "...), int64(length), 10)
	}
	return out
}

// line prints an instruction that is not a recorded branch.
func (b *blocks) line(in disasm.Instruction, out []byte) []byte {
	return append(b.bytes(in, 0, out), '\n')
}

// sourceText prints the source line of an instruction, if that is asked for.
func (b *blocks) sourceText(ip uint64, out []byte) []byte {
	if b.fields&fieldSourceText == 0 {
		return out
	}
	before := len(out)
	out = b.source.line(b.at, ip-b.atIP, b.item.Sample.TID, out)
	b.left -= min(b.left, uint64(len(out)-before))
	return out
}

// branch prints a recorded branch, which is the instruction with this number in its block; the number is 0 if it is unknown.
func (b *blocks) branch(in disasm.Instruction, branch *perfdata.Branch, number int, out []byte) []byte {
	out = b.bytes(in, flagColumn, out)
	if b.fields&fieldSourceLine != 0 {
		out = b.lineOf(exactly(b.Branch(b.item, in.Address)), append(out, "\t srcline: "...))
	}
	out = append(out, "\t#"...)
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{branch.Flags.Predicted(), " PRED"}, {branch.Flags.Mispredicted(), " MISPRED"},
		{branch.Flags.InTX(), " INTX"}, {branch.Flags.Abort(), " ABORT"},
	} {
		if flag.set {
			out = append(out, flag.name...)
		}
	}
	if cycles := uint64(branch.Flags.Cycles()); cycles > 0 {
		b.cycles += cycles
		out = fmt.Appendf(out, " %d cycles [%d]", cycles, b.cycles)
		if number > 0 {
			out = fmt.Appendf(out, " %.2f IPC", float32(number)/float32(cycles))
		}
	}
	return b.sourceText(in.Address, append(out, '\n'))
}
