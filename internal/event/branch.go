package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// branchKinds has perf's names for the bits of enum perf_branch_sample_type (include/uapi/linux/perf_event.h).
var branchKinds = map[string]perfdata.BranchSampleType{
	"u": perfdata.BranchUser, "k": perfdata.BranchKernel, "hv": perfdata.BranchHV,
	"any": perfdata.BranchAny, "any_call": perfdata.BranchAnyCall, "any_ret": perfdata.BranchAnyReturn,
	"ind_call": perfdata.BranchIndCall, "ind_jmp": perfdata.BranchIndJump, "call": perfdata.BranchCall, "cond": perfdata.BranchCond,
	"abort_tx": perfdata.BranchAbortTX, "in_tx": perfdata.BranchInTX, "no_tx": perfdata.BranchNoTX,
	"no_flags": perfdata.BranchNoFlags, "no_cycles": perfdata.BranchNoCycles, "save_type": perfdata.BranchTypeSave,
	"stack": perfdata.BranchCallStack, "hw_index": perfdata.BranchHWIndex, "priv": perfdata.BranchPrivSave, "counter": perfdata.BranchCounters,
}

// branchModes has the kinds that select the mode of a branch. branchExtras has the kinds that select the recorded fields.
const (
	branchModes  = perfdata.BranchUser | perfdata.BranchKernel | perfdata.BranchHV
	branchExtras = perfdata.BranchNoFlags | perfdata.BranchNoCycles | perfdata.BranchTypeSave | perfdata.BranchHWIndex |
		perfdata.BranchPrivSave | perfdata.BranchCounters
)

// BranchKinds returns the words that ParseBranches knows, in alphabetical order.
func BranchKinds() []string { return slices.Sorted(maps.Keys(branchKinds)) }

// ParseBranches parses a comma-separated list of branch kinds, as in perf record -j, and returns the value for the field branch_sample_type
// of struct perf_event_attr. If the list has only modes and extras, it selects all branches.
func ParseBranches(list string) (kinds perfdata.BranchSampleType, err error) {
	for word := range strings.SplitSeq(list, ",") {
		bit, known := branchKinds[word]
		if !known {
			return 0, fmt.Errorf("there is no kind of branch %q; there are %s", word, strings.Join(BranchKinds(), ", "))
		}
		kinds |= bit
	}
	if kinds&^(branchModes|branchExtras) == 0 {
		kinds |= perfdata.BranchAny
	}
	return kinds, nil
}
