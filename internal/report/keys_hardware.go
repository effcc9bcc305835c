package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// hardwareKeys are the keys that only recordings have: what the hardware and the kernel recorded with each sample.
var hardwareKeys = []*key{
	traceKey,
	{
		name: "socket", title: "Socket", needs: profile.CPU,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return number(b, socket(p, of)) },
		text: func(p *profile.Profile, of *properties, width int) string {
			return fmt.Sprintf("%*.*d", width, cpuDigits, socket(p, of))
		},
		compare: func(p *profile.Profile, a, b *properties) int { return cmp.Compare(socket(p, a), socket(p, b)) },
	},
	{
		name: "dso_size", title: "DSO size", scope: ofFrame,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return number(b, dsoSize(p, of)) },
		text: func(p *profile.Profile, of *properties, width int) string {
			if size := dsoSize(p, of); size > 0 {
				return fmt.Sprintf("%*d", width, size)
			}
			return fmt.Sprintf("%*s", width, "unknown")
		},
		compare: func(p *profile.Profile, a, b *properties) int { return cmp.Compare(dsoSize(p, a), dsoSize(p, b)) },
	},
	numberKey("local_weight", "Local Weight", weightWidth, profile.Weight, func(d *profile.Details) uint64 { return d.Weight }),
	sumKey("weight", "Weight", weightWidth, func(d *profile.Details) uint64 { return d.Weight }),
	numberKey("local_ins_lat", "Local INSTR Latency", 0, profile.Weight, instructionLatency),
	sumKey("ins_lat", "INSTR Latency", 0, instructionLatency),
	numberKey("local_retire_lat", "Local Retire Latency", 0, profile.Weight, retireLatency),
	sumKey("retire_lat", "Retire Latency", 0, retireLatency),
	numberKey("local_p_stage_cyc", "Local Retire Latency", 0, profile.Weight, retireLatency),
	sumKey("p_stage_cyc", "Retire Latency", 0, retireLatency),
	{
		name: "transaction", title: "Transaction", scope: ofSample, needs: profile.Transaction, width: transactionWidth, fills: true,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.details.Transaction) },
		text:     func(_ *profile.Profile, of *properties, _ int) string { return transaction(of.details.Transaction) },
		compare: func(_ *profile.Profile, a, b *properties) int {
			return cmp.Compare(b.details.Transaction, a.details.Transaction)
		},
	},
	{
		name: "cgroup_id", title: "cgroup id (dev/inode)", scope: ofSample, needs: profile.CgroupID,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte {
			return number(number(b, of.details.CgroupDevice), of.details.CgroupInode)
		},
		text: func(_ *profile.Profile, of *properties, _ int) string {
			return fmt.Sprintf("%d/%#x", of.details.CgroupDevice, of.details.CgroupInode)
		},
		compare: func(_ *profile.Profile, a, b *properties) int {
			return cmp.Or(cmp.Compare(a.details.CgroupDevice, b.details.CgroupDevice), cmp.Compare(a.details.CgroupInode, b.details.CgroupInode))
		},
	},
	{
		name: "addr", title: "Address", scope: ofFrame, needs: profile.IP, width: 18, fills: true,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.frame.IP) },
		text:     func(_ *profile.Profile, of *properties, _ int) string { return fmt.Sprintf("%#x", of.frame.IP) },
		compare:  func(_ *profile.Profile, a, b *properties) int { return compareAddresses(a.frame.IP, b.frame.IP) },
	},
	pageKey("code_page_size", "Code Page Size", 0, func(d *profile.Details) uint64 { return d.CodePage }),
	pageKey("data_page_size", "Data Page Size", dataWidth, func(d *profile.Details) uint64 { return d.DataPage }),
	{
		name: "phys_daddr", title: "Data Physical Address", scope: ofSample,
		needs: profile.PhysAddress | profile.DataAddress, width: dataWidth, fills: true,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte {
			return number(append(b, level(of.data.Kind)), of.details.PhysAddress)
		},
		text: func(_ *profile.Profile, of *properties, _ int) string {
			return fmt.Sprintf("[%c] %s", level(of.data.Kind), address(of.details.PhysAddress))
		},
		compare: func(_ *profile.Profile, a, b *properties) int {
			return compareAddresses(a.details.PhysAddress, b.details.PhysAddress)
		},
	},
	{
		name: "symbol_daddr", title: "Data Symbol", scope: ofSample, needs: profile.DataAddress,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte {
			return number(number(b, of.data.Function), of.details.DataAddress)
		},
		text: func(p *profile.Profile, of *properties, _ int) string {
			if of.data.Function == 0 {
				return fmt.Sprintf("[%c] %s", level(of.data.Kind), address(of.details.DataAddress))
			}
			return fmt.Sprintf("%s+%#x", symbolText(p, of.data), of.details.DataOffset)
		},
		room: func(p *profile.Profile, of *properties) int { return dataRoom(p, of.data) },
		compare: func(_ *profile.Profile, a, b *properties) int {
			return compareAddresses(a.details.DataAddress, b.details.DataAddress)
		},
	},
	{
		name: "symbol_iaddr", title: "Code Symbol", scope: ofSample, needs: profile.IP,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.target.IP) },
		text: func(p *profile.Profile, of *properties, _ int) string {
			if of.target.Function == 0 {
				return fmt.Sprintf("[%c] %s", level(of.target.Kind), address(of.target.IP))
			}
			return symbolText(p, of.target)
		},
		room:    func(p *profile.Profile, of *properties) int { return dataRoom(p, of.target) },
		compare: func(_ *profile.Profile, a, b *properties) int { return compareAddresses(a.target.IP, b.target.IP) },
	},
	{
		name: "dcacheline", title: "Data Cacheline", scope: ofSample, needs: profile.DataAddress,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte {
			return number(number(b, of.data.Module), cacheLine(of))
		},
		text: dataLine,
		room: func(p *profile.Profile, of *properties) int { return dataRoom(p, of.data) + 1 },
		compare: func(p *profile.Profile, a, b *properties) int {
			return cmp.Or(lastWithout(a.data.Module != 0, b.data.Module != 0, "", ""), compareAddresses(cacheLine(a), cacheLine(b)))
		},
	},
	reversed(with(dsoKey("dso_daddr", "Data Object", ofSample, func(of *properties) *profile.Frame { return of.data }), profile.DataAddress)),
	sourceKey("mem", "Memory access", 39, true, perfdata.DataSource.LevelWords, perfdata.DataSource.Level),
	sourceKey("snoop", "Snoop", 12, true, perfdata.DataSource.SnoopWords, perfdata.DataSource.Snoop),
	sourceKey("tlb", "TLB access", 22, true, perfdata.DataSource.TLBWords, perfdata.DataSource.TLB),
	sourceKey("locked", "Locked", 0, false, perfdata.DataSource.LockWord, perfdata.DataSource.Lock),
	sourceKey("blocked", "Blocked", 10, false, blockedText, perfdata.DataSource.Blocked),
}

// branchKeys are the keys of branches. As in perf, files of sources come in the reverse order.
var branchKeys = ofBranches(
	reversed(dsoKey("dso_from", "Source Shared Object", ofSample, func(of *properties) *profile.Frame { return of.source })),
	branchSymbolKey("symbol_from", "Source Symbol", func(of *properties) *profile.Frame { return of.source }),
	reversed(dsoKey("dso_to", "Target Shared Object", ofSample, func(of *properties) *profile.Frame { return of.target })),
	branchSymbolKey("symbol_to", "Target Symbol", func(of *properties) *profile.Frame { return of.target }),
	flagKey("mispredict", "Branch Mispredicted", "N", "Y", func(d *profile.Details) bool { return d.Mispredicted }),
	flagKey("in_tx", "Branch in transaction", ".", "T", func(d *profile.Details) bool { return d.InTX }),
	flagKey("abort", "Transaction abort", ".", "A", func(d *profile.Details) bool { return d.Abort }),
	&key{
		name: "cycles", title: "Basic Block Cycles", scope: ofSample, needs: profile.Branch, fills: true,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, uint32(of.details.Cycles)) },
		text: func(_ *profile.Profile, of *properties, _ int) string {
			if of.details.Cycles == 0 {
				return "-"
			}
			return strconv.Itoa(int(of.details.Cycles))
		},
		compare: func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(b.details.Cycles, a.details.Cycles) },
	},
)

// ofBranches marks keys that only branches have.
func ofBranches(keys ...*key) []*key {
	for _, k := range keys {
		k.branch = true
	}
	return keys
}

// Widths that perf reserves.
const (
	cpuDigits   = 3
	weightWidth = 12
	dataWidth   = unresolvedWidth + len("[.] 0x")
)

// compareAddresses puts the kernel's addresses first, as perf does.
func compareAddresses(a, b uint64) int { return cmp.Compare(int64(a), int64(b)) }

func instructionLatency(d *profile.Details) uint64 { return uint64(d.InstructionLatency) }

func retireLatency(d *profile.Details) uint64 { return uint64(d.RetireLatency) }

// socket returns the socket of a sample's CPU, or -1 if it is unknown.
func socket(p *profile.Profile, of *properties) int32 {
	if cpu := int(of.labels.CPU); cpu >= 0 && cpu < len(p.Sockets) {
		return p.Sockets[cpu]
	}
	return -1
}

// dsoSize returns the size of the memory that a frame's file was mapped to.
func dsoSize(p *profile.Profile, of *properties) uint64 { return p.Modules.At(of.frame.Module).Size }

// cacheLineSize is that of nearly all machines. Recordings before perf 7.1 do not have theirs.
const cacheLineSize = 64

// cacheLine returns the address of the cache line of a sample's data.
func cacheLine(of *properties) uint64 { return of.details.DataAddress &^ (cacheLineSize - 1) }

// dataLine returns the cache line of a sample's data by its offset in the object there. An X marks memory without a known mapping.
func dataLine(p *profile.Profile, of *properties, _ int) string {
	before := of.details.DataAddress - cacheLine(of)
	switch {
	case of.data.Module == 0:
		return "[X] " + address(cacheLine(of))
	case of.data.Function == 0 || before > of.details.DataOffset:
		return fmt.Sprintf("[%c] %s", level(of.data.Kind), address(cacheLine(of)))
	}
	return fmt.Sprintf("%s+%#x", symbolText(p, of.data), of.details.DataOffset-before)
}

// dataRoom returns the width that perf reserves for an object in memory.
func dataRoom(p *profile.Profile, f *profile.Frame) int {
	if f.Function == 0 {
		return dataWidth
	}
	return symbolRoom(p, f) + dataWidth - len("[.] ")
}

// numberKey returns a key for a number of a sample. The largest comes first.
func numberKey(name, title string, width int, needs profile.Keys, of func(*profile.Details) uint64) *key {
	return &key{
		name: name, title: title, scope: ofSample, needs: needs, width: width, fills: true,
		identity: func(_ *profile.Profile, b []byte, p *properties) []byte { return number(b, of(p.details)) },
		text:     func(_ *profile.Profile, p *properties, _ int) string { return strconv.FormatUint(of(p.details), 10) },
		compare:  func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(of(b.details), of(a.details)) },
	}
}

// sumKey returns a key like numberKey that shows the sum of the numbers of a row's samples.
func sumKey(name, title string, width int, of func(*profile.Details) uint64) *key {
	k := numberKey(name, title, width, profile.Weight, of)
	k.text = func(_ *profile.Profile, p *properties, _ int) string {
		return strconv.FormatUint(of(p.details)*p.samples, 10)
	}
	return k
}

// pageKey returns a key for the size of a page. The smallest comes first.
func pageKey(name, title string, width int, of func(*profile.Details) uint64) *key {
	k := numberKey(name, title, width, profile.PageSize, of)
	k.text = func(_ *profile.Profile, p *properties, _ int) string { return printable.PageSize(of(p.details)) }
	return reversed(k)
}

// blockedText is the text of the key blocked: perf prints a blank before each word.
func blockedText(d perfdata.DataSource) string { return " " + strings.TrimLeft(d.BlockedWords(), " ") }

// sourceKey returns a key for a part of the data source. Its bits order rows.
func sourceKey(name, title string, width int, fills bool, words func(perfdata.DataSource) string, bits func(perfdata.DataSource) uint64) *key {
	text := func(_ *profile.Profile, of *properties, _ int) string {
		return strings.TrimRight(words(perfdata.DataSource(of.details.DataSource)), " ")
	}
	return &key{
		name: name, title: title, scope: ofSample, needs: profile.DataSource, width: width, fills: fills, text: text,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return append(b, text(p, of, 0)...) },
		compare: func(p *profile.Profile, a, b *properties) int {
			return cmp.Or(cmp.Compare(bits(perfdata.DataSource(a.details.DataSource)), bits(perfdata.DataSource(b.details.DataSource))),
				cmp.Compare(text(p, a, 0), text(p, b, 0)))
		},
	}
}

// flagKey returns a key for a flag of a branch.
func flagKey(name, title, no, yes string, flag func(*profile.Details) bool) *key {
	text := func(_ *profile.Profile, of *properties, _ int) string {
		if flag(of.details) {
			return yes
		}
		return no
	}
	return &key{
		name: name, title: title, scope: ofSample, needs: profile.Branch, fills: true, text: text,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return append(b, text(p, of, 0)...) },
	}
}

// branchSymbolKey returns a key for the function at one end of a branch. Functions are in the order of their addresses.
func branchSymbolKey(name, title string, frame func(*properties) *profile.Frame) *key {
	k := symbolKey(name, title, ofSample, frame)
	k.compare = func(p *profile.Profile, a, b *properties) int {
		f, g := frame(a), frame(b)
		if (f.Function != 0) != (g.Function != 0) {
			return lastWithout(f.Function != 0, g.Function != 0, "", "")
		}
		if f.Function == 0 {
			return compareAddresses(f.IP, g.IP)
		}
		of, to := p.Functions.At(f.Function), p.Functions.At(g.Function)
		return cmp.Or(compareAddresses(of.Start, to.Start), compareAddresses(of.End, to.End))
	}
	return k
}

// with adds needed keys of the profile to a key.
func with(k *key, needs profile.Keys) *key {
	k.needs |= needs
	return k
}

// reversed reverses the order of a key.
func reversed(k *key) *key {
	forward := k.compare
	k.compare = func(p *profile.Profile, a, b *properties) int { return forward(p, b, a) }
	return k
}

// transactionFlags are perf's words for the bits PERF_TXN_….
var transactionFlags = []string{"EL", "TX", "SYNC", "ASYNC", "RETRY", "CON", "CAP-WRITE", "CAP-READ"}

const (
	transactionWhen  = 1<<2 | 1<<3 // PERF_TXN_SYNC, PERF_TXN_ASYNC
	transactionAbort = 32          // PERF_TXN_ABORT_SHIFT
	transactionWidth = 32
)

// transaction returns what ended a hardware transaction, in perf's words.
func transaction(t uint64) string {
	if t == 0 {
		return ""
	}
	var words []string
	for i, name := range transactionFlags {
		if t>>i&1 != 0 {
			words = append(words, name)
		}
	}
	if t&transactionWhen == 0 {
		words = append(words, "NEITHER")
	}
	if code := t >> transactionAbort; code != 0 {
		words = append(words, fmt.Sprintf(":%x", code))
	}
	return strings.Join(words, " ")
}
