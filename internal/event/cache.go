package event

import (
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// A cache event combines a cache, an operation and a result: enum perf_hw_cache_id,
// perf_hw_cache_op_id and perf_hw_cache_op_result_id (include/uapi/linux/perf_event.h). The
// index in these lists is the kernel's number. Event lists show the first spelling.
var (
	cacheNames = [][]string{
		{"L1-dcache", "L1-d", "L1d", "L1-data"},
		{"L1-icache", "L1-i", "L1i", "L1-instruction"},
		{"LLC", "L2"},
		{"dTLB", "d-tlb", "Data-TLB"},
		{"iTLB", "i-tlb", "Instruction-TLB"},
		{"branch", "branches", "bpu", "btb", "bpc"},
		{"node"},
	}
	cacheOps = [][]string{
		{"load", "loads", "read"},
		{"store", "stores", "write"},
		{"prefetch", "prefetches", "speculative-read", "speculative-load"},
	}
	cacheResults = [][]string{
		{"refs", "Reference", "ops", "access"},
		{"misses", "miss"},
	}
)

// cacheHasOp has the operations that each cache supports; for example, there are no stores to an instruction cache.
var cacheHasOp = [][3]bool{
	{true, true, true},
	{true, false, true},
	{true, true, true},
	{true, true, true},
	{true, false, false},
	{true, false, false},
	{true, true, true},
}

// cacheEvent has the kernel's numbers of a cache, an operation and a result.
type cacheEvent struct{ cache, op, result int }

func (c cacheEvent) config() uint64 { return uint64(c.cache) | uint64(c.op)<<8 | uint64(c.result)<<16 }

// event returns the event without name and modifiers, for a machine with at most one core PMU.
func (c cacheEvent) event() Event {
	return Event{PMU: "cpu", Scale: 1, Attr: perfdata.Attr{Type: perfdata.TypeHWCache, Config: c.config()}}
}

func (c cacheEvent) possible() bool { return cacheHasOp[c.cache][c.op] }

// name returns the spelling that event lists show.
func (c cacheEvent) name() string {
	s := cacheNames[c.cache][0] + "-" + cacheOps[c.op][0]
	switch {
	case c.result == 1:
		return s + "-misses"
	case c.op == 2:
		return s + "es"
	default:
		return s + "s"
	}
}

// parseCache parses CACHE[-OP][-RESULT], with OP and RESULT in either order and any spelling. The default operation is a
// load, the default result an access.
func parseCache(name string) (c cacheEvent, ok bool) {
	c.cache, name, ok = cutSpelling(name, cacheNames)
	if !ok {
		return c, false
	}
	hasOp, hasResult := false, false
	for name != "" {
		name = name[1:] // the dash
		if i, rest, ok := cutSpelling(name, cacheOps); ok && !hasOp {
			c.op, name, hasOp = i, rest, true
			continue
		}
		i, rest, ok := cutSpelling(name, cacheResults)
		if !ok || hasResult {
			return c, false
		}
		c.result, name, hasResult = i, rest, true
	}
	return c, true
}

// cutSpelling removes one of the spellings, upper or lower case, from the start of name. number is the spelling's index. The rest
// starts with a dash or is empty.
func cutSpelling(name string, spellings [][]string) (number int, rest string, ok bool) {
	for i, list := range spellings {
		for _, s := range list {
			if len(name) < len(s) || !strings.EqualFold(name[:len(s)], s) {
				continue
			}
			if rest := name[len(s):]; rest == "" || rest[0] == '-' {
				return i, rest, true
			}
		}
	}
	return 0, "", false
}
