package script

import (
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/perfdata"
)

// Names of the bits of union perf_mem_data_src, as perf has them.
var (
	memoryOps    = []string{"N/A", "LOAD", "STORE", "PFETCH", "EXEC"}
	memoryLevels = []string{"N/A", "HIT", "MISS", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)", "Remote RAM (2 hops)",
		"Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached"}
	memoryLevelNumbers = map[uint64]string{1: "L1", 2: "L2", 3: "L3", 4: "L4", 5: "L2 MHB", 6: "Memory-side Cache", 8: "Uncached", 9: "CXL", 10: "I/O",
		11: "Any cache", 12: "LFB/MAB", 13: "RAM", 14: "PMEM"}
	memoryHops   = []string{"", "core, same node", "node, same socket", "socket, same board", "board"}
	memorySnoops = []string{"N/A", "None", "Hit", "Miss", "HitM", "Fwd", "Peer"}
	memoryTLBs   = []string{"N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"}
)

// appendDataSource prints where data was found: in hexadecimal and in words.
func appendDataSource(out []byte, d perfdata.DataSource) []byte {
	out = append(appendHex(out, uint64(d), 16), " |OP "...)
	op, _, _ := strings.Cut(bits(d.Op(), memoryOps, "", "|"), "|")
	out = append(out, op...)
	out = append(out, "|LVL "...)
	out = append(out, memoryLevel(d)...)
	out = append(out, "|SNP "...)
	out = append(out, bits(d.Snoop()|d.SnoopX()<<5, memorySnoops, "", " or ")...)
	out = append(out, "|TLB "...)
	out = append(out, tlb(d)...)
	out = append(out, "|LCK "...)
	lock := "No"
	if d.Lock()&1 != 0 {
		lock = "N/A"
	} else if d.Lock()&2 != 0 {
		lock = "Yes"
	}
	out = append(out, lock...)
	out = append(out, "|BLK "...)
	return append(out, bits(d.Blocked()>>1, []string{" Data", " Addr"}, "", "")...)
}

func bits(v uint64, names []string, prefix, separator string) string {
	var words []string
	for i, name := range names {
		if v>>i&1 != 0 {
			words = append(words, name)
		}
	}
	if len(words) == 0 {
		return "N/A"
	}
	return prefix + strings.Join(words, separator)
}

func memoryLevel(d perfdata.DataSource) string {
	level := d.Level()
	hit := " "
	if level&2 != 0 {
		hit = " hit"
	} else if level&4 != 0 {
		hit = " miss"
	}
	const notAvailable = 15 // PERF_MEM_LVLNUM_NA
	if number := d.LevelNumber(); number != 0 && number != notAvailable {
		name, known := memoryLevelNumbers[number]
		if !known {
			name = "Unknown level " + strconv.FormatUint(number, 10)
		}
		if hops := d.Hops(); hops > 0 && int(hops) < len(memoryHops) {
			name = memoryHops[hops] + " " + name
		}
		if d.Remote() != 0 {
			name = "Remote " + name
		}
		return name + hit
	}
	where := bits(level>>3<<3, memoryLevels, "", " or ")
	if where == "N/A" {
		return where
	}
	return where + hit
}

func tlb(d perfdata.DataSource) string {
	v := d.TLB()
	where := bits(v&^6, memoryTLBs, "", " or ")
	if v&2 != 0 {
		where += " hit"
	}
	if v&4 != 0 {
		where += " miss"
	}
	return where
}
