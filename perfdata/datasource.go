package perfdata

import (
	"strconv"
	"strings"
)

// DataSource is the place in the memory hierarchy that served an access: union perf_mem_data_src.
type DataSource uint64

// DataSourceNA is the data source of events without one: PERF_MEM_NA in include/linux/perf_event.h.
const DataSourceNA DataSource = 1 | 1<<5 | 1<<19 | 1<<24 | 1<<26 | 15<<33

// Op returns the type of access: PERF_MEM_OP_….
func (d DataSource) Op() uint64 { return d.bits(0, 5) }

// Level returns the level of the hierarchy: PERF_MEM_LVL_…. Newer hardware sets LevelNumber instead.
func (d DataSource) Level() uint64 { return d.bits(5, 14) }

// Snoop returns the result of the snoop: PERF_MEM_SNOOP_….
func (d DataSource) Snoop() uint64 { return d.bits(19, 5) }

// Lock returns PERF_MEM_LOCK_…: whether the access was locked.
func (d DataSource) Lock() uint64 { return d.bits(24, 2) }

// TLB returns the TLB access: PERF_MEM_TLB_….
func (d DataSource) TLB() uint64 { return d.bits(26, 7) }

// LevelNumber returns the level of the hierarchy as a number: PERF_MEM_LVLNUM_….
func (d DataSource) LevelNumber() uint64 { return d.bits(33, 4) }

// Remote returns PERF_MEM_REMOTE_…: 1 if the data was remote.
func (d DataSource) Remote() uint64 { return d.bits(37, 1) }

// SnoopX returns the extended snoop bits: PERF_MEM_SNOOPX_….
func (d DataSource) SnoopX() uint64 { return d.bits(38, 2) }

// Blocked returns why the access was blocked: PERF_MEM_BLK_….
func (d DataSource) Blocked() uint64 { return d.bits(40, 3) }

// Hops returns the distance of remote data: PERF_MEM_HOPS_….
func (d DataSource) Hops() uint64 { return d.bits(43, 3) }

func (d DataSource) bits(from, n int) uint64 { return uint64(d) >> from & (1<<n - 1) }

// perf's names of the bits of union perf_mem_data_src.
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

// AppendWords appends d to out as text, as perf prints it: "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A".
func (d DataSource) AppendWords(out []byte) []byte {
	out = append(out, "|OP "...)
	op, _, _ := strings.Cut(words(d.Op(), memoryOps, "|"), "|")
	out = append(out, op...)
	out = append(out, "|LVL "...)
	out = append(out, d.LevelWords()...)
	out = append(out, "|SNP "...)
	out = append(out, d.SnoopWords()...)
	out = append(out, "|TLB "...)
	out = append(out, d.TLBWords()...)
	out = append(out, "|LCK "...)
	out = append(out, d.LockWord()...)
	out = append(out, "|BLK "...)
	return append(out, d.BlockedWords()...)
}

// SnoopWords returns the result of the snoop as text, such as "HitM".
func (d DataSource) SnoopWords() string { return words(d.Snoop()|d.SnoopX()<<5, memorySnoops, " or ") }

// LockWord returns whether the access was locked: "Yes", "No" or "N/A".
func (d DataSource) LockWord() string {
	switch {
	case d.Lock()&1 != 0:
		return "N/A"
	case d.Lock()&2 != 0:
		return "Yes"
	}
	return "No"
}

// BlockedWords returns why the access was blocked as text, such as " Data".
func (d DataSource) BlockedWords() string {
	if d.Blocked()&1 != 0 {
		return "N/A"
	}
	return words(d.Blocked()>>1, []string{" Data", " Addr"}, "")
}

// words joins the names of the bits that are set in v. It returns "N/A" if none is.
func words(v uint64, names []string, separator string) string {
	var set []string
	for i, name := range names {
		if v>>i&1 != 0 {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return "N/A"
	}
	return strings.Join(set, separator)
}

// LevelWords returns the level of the hierarchy as text, such as "L1 hit". It ends with a blank if a hit or a miss is unknown.
func (d DataSource) LevelWords() string {
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
	where := words(level>>3<<3, memoryLevels, " or ")
	if where == "N/A" {
		return where
	}
	return where + hit
}

// TLBWords returns the TLB access as text, such as "L1 or L2 hit".
func (d DataSource) TLBWords() string {
	v := d.TLB()
	where := words(v&^6, memoryTLBs, " or ")
	if v&2 != 0 {
		where += " hit"
	}
	if v&4 != 0 {
		where += " miss"
	}
	return where
}
