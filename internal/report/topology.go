package report

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

func (h header) cpus() {
	t, ok := feature[perfdata.CPUTopology](h, perfdata.FeatureCPUTopology)
	if !ok {
		return
	}
	for _, list := range t.Packages {
		h.line("sibling sockets : %s", list)
	}
	for _, list := range t.Dies {
		h.line("sibling dies    : %s", list)
	}
	for _, list := range t.Cores {
		h.line("sibling threads : %s", list)
	}
	for cpu, at := range t.CPUs {
		die := ""
		if len(t.Dies) > 0 {
			die = fmt.Sprintf("Die ID %d, ", at.Die)
		}
		h.line("CPU %d: Core ID %d, %sSocket ID %d", cpu, at.Core, die, at.Socket)
	}
}

func (h header) nodes() {
	nodes, _ := feature[perfdata.NUMATopology](h, perfdata.FeatureNUMATopology)
	for _, n := range nodes {
		h.line("node%d meminfo  : total = %d kB, free = %d kB", n.Node, n.MemTotal, n.MemFree)
		h.line("node%d cpu list : %s", n.Node, n.CPUs)
	}
}

func (h header) caches() {
	if caches, ok := feature[perfdata.Caches](h, perfdata.FeatureCache); ok {
		h.line("CPU cache info:")
		for _, c := range caches {
			h.line(" L%d %-15s %8s [%s]", c.Level, c.Type, c.Size, c.CPUs)
		}
	}
}

func (h header) memory() {
	if memory, ok := feature[perfdata.MemTopology](h, perfdata.FeatureMemTopology); ok {
		h.line("memory nodes (nr %d, block size %#x):", len(memory.Nodes), memory.BlockSize)
		for _, n := range memory.Nodes {
			blocks, list := blockList(n.Blocks)
			h.line("%4d [%s]: %s", n.Node, rounded(blocks*memory.BlockSize), list)
		}
	}
}

func (h header) hybrid() {
	if pmus, ok := feature[perfdata.HybridTopology](h, perfdata.FeatureHybridTopology); ok {
		h.line("hybrid cpu system:")
		for _, p := range pmus {
			h.line("%s cpu list : %s", p.PMU, p.CPUs)
		}
	}
}

// maxBlockRanges bounds the text of a damaged bitmap.
const maxBlockRanges = 1000

// blockList returns the number of bits that are set, and their ranges.
func blockList(bitmap []uint64) (blocks uint64, list string) {
	var b strings.Builder
	isSet := func(i int) bool { return i < 64*len(bitmap) && bitmap[i/64]>>(i%64)&1 != 0 }
	for _, word := range bitmap {
		blocks += uint64(bits.OnesCount64(word))
	}
	ranges := 0
	for i := 0; i < 64*len(bitmap); i++ {
		if !isSet(i) {
			continue
		}
		if ranges++; ranges > maxBlockRanges {
			return blocks, b.String() + ",…"
		}
		end := i
		for isSet(end + 1) {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
		if end > i {
			b.WriteString("-" + strconv.Itoa(end))
		}
		i = end
	}
	return blocks, b.String()
}

// rounded formats a number of bytes in the largest unit of which there is at least one.
func rounded(bytes uint64) string {
	const units = "BKMGTPE"
	unit := 0
	for ; bytes >= 1024; unit++ {
		bytes /= 1024
	}
	return fmt.Sprintf("%d%c", bytes, units[unit])
}
