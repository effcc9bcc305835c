package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// block is the code up to a branch that was taken, from the target of the branch before. Blocks with the same end are one, which starts where
// the longest of them does: as in perf, the start is that of the function if no branch before went to this function.
type block struct {
	start, end profile.Frame
	known      bool   // the start is the target of a branch
	cycles     uint64 // in all samples
	branches   uint64 // number of times that it was sampled
}

func (b *block) mean() uint64 { return b.cycles / b.branches }

// blocks are those of a table.
type blocks struct {
	all   []*block
	total uint64 // cycles of all branches
	means uint64 // what the shares of means relate to
}

// blockEnd identifies a block.
type blockEnd struct {
	function profile.FunctionID
	address  uint64
}

// newBlocks collects the blocks of functions that branches in the rows of a table go to. As in perf, the means of a function's blocks count
// once for each of these rows.
func newBlocks(t *table) *blocks {
	targets := map[profile.FunctionID]uint64{}
	for _, r := range t.rows {
		targets[r.target.Function]++
	}
	found, byEnd := &blocks{}, map[blockEnd]*block{}
	wanted := t.o.Filter.of(t.p)
	for i := range t.p.Samples() {
		s := &t.p.Samples()[i]
		d := t.p.Details(s.Details)
		if !slices.Contains(t.events, int(s.Event)) || !d.Timed || d.Cycles == 0 || !wanted(s) {
			continue
		}
		cycles := s.Count * uint64(d.Cycles)
		found.total += cycles
		end, start := t.p.Frames()[s.Source], t.p.Frames()[d.Previous]
		if end.Function == 0 || targets[end.Function] == 0 {
			continue
		}
		b := byEnd[blockEnd{end.Function, end.Address}]
		if b == nil {
			function := t.p.Functions.At(end.Function)
			b = &block{end: end, start: profile.Frame{Module: end.Module, Function: end.Function, Address: function.Start, File: function.File,
				Line: function.StartLine}}
			byEnd[blockEnd{end.Function, end.Address}] = b
			found.all = append(found.all, b)
		}
		b.cycles, b.branches = b.cycles+cycles, b.branches+s.Count
		if start.Function == end.Function && start.Address < end.Address && (!b.known || start.Address < b.start.Address) {
			b.start, b.known = start, true
		}
	}
	for _, b := range found.all {
		found.means += b.mean() * targets[b.end.Function]
	}
	slices.SortFunc(found.all, func(a, b *block) int {
		return cmp.Or(cmp.Compare(b.cycles, a.cycles),
			cmp.Compare(t.p.Strings.At(t.p.Functions.At(b.end.Function).Name), t.p.Strings.At(t.p.Functions.At(a.end.Function).Name)),
			cmp.Compare(a.start.Address, b.start.Address), cmp.Compare(a.end.Address, b.end.Address))
	})
	return found
}

// blockTitles are the titles of the columns of blocks, and blockWidths their widths: perf's.
var (
	blockTitles = [...]string{"Sampled Cycles%", "Sampled Cycles", "Avg Cycles%", "Avg Cycles", "[Program Block Range]", "Shared Object"}
	blockWidths = [...]int{15, 14, 11, 10, 70, 20}
)

// printBlocks prints the blocks of a table in place of its rows.
func (t *textPrinter) printBlocks(table *table) {
	if !t.o.NoHeads {
		t.printSums(table)
		t.w.WriteString("# " + t.blockLine(blockTitles) + "\n")
		if t.o.Separator == "" {
			var dots [len(blockWidths)]string
			for i, width := range blockWidths {
				dots[i] = strings.Repeat(".", width)
			}
			t.w.WriteString("# " + t.blockLine(dots) + "\n#\n")
		}
	}
	found := newBlocks(table)
	for _, b := range found.all {
		share := percent(b.cycles, found.total)
		if share < t.o.Limit {
			continue
		}
		if t.o.Separator == "" {
			t.w.WriteString("  ")
		}
		lines := fmt.Sprintf("[%s -> %s]", sourceLine(t.p, &b.start, t.o.FullPaths), sourceLine(t.p, &b.end, t.o.FullPaths))
		t.w.WriteString(t.blockLine([...]string{fmt.Sprintf("%.2f%%", share), shortCycles(b.cycles),
			fmt.Sprintf("%.2f%%", percent(b.mean(), found.means)), shortCycles(b.mean()), lines, moduleName(t.p, &b.end)}) + "\n")
	}
}

// blockLine returns a line of the table of blocks.
func (t *textPrinter) blockLine(cells [len(blockWidths)]string) string {
	var line []string
	for i, cell := range cells {
		cell = printable.Text(cell)
		if t.o.Separator != "" {
			line = append(line, strings.ReplaceAll(cell, t.o.Separator, "."))
		} else {
			line = append(line, fmt.Sprintf("%*s", blockWidths[i], cell))
		}
	}
	return strings.Join(line, t.separator())
}

// shortCycles formats a number of cycles as perf does.
func shortCycles(n uint64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1fK", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
