package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// branchKinds are perf's words for enum perf_branch_sample_type (include/uapi/linux/perf_event.h).
var branchKinds = map[string]perfdata.BranchSampleType{
	"u": perfdata.BranchUser, "k": perfdata.BranchKernel, "hv": perfdata.BranchHV,
	"any": perfdata.BranchAny, "any_call": perfdata.BranchAnyCall, "any_ret": perfdata.BranchAnyReturn,
	"ind_call": perfdata.BranchIndCall, "ind_jmp": perfdata.BranchIndJump, "call": perfdata.BranchCall, "cond": perfdata.BranchCond,
	"abort_tx": perfdata.BranchAbortTX, "in_tx": perfdata.BranchInTX, "no_tx": perfdata.BranchNoTX,
	"no_flags": perfdata.BranchNoFlags, "no_cycles": perfdata.BranchNoCycles, "save_type": perfdata.BranchTypeSave,
	"stack": perfdata.BranchCallStack, "hw_index": perfdata.BranchHWIndex, "priv": perfdata.BranchPrivSave, "counter": perfdata.BranchCounters,
}

// branchModes are the kinds that say where a branch is, and branchExtras those that say what is recorded of it.
const (
	branchModes  = perfdata.BranchUser | perfdata.BranchKernel | perfdata.BranchHV
	branchExtras = perfdata.BranchNoFlags | perfdata.BranchNoCycles | perfdata.BranchTypeSave | perfdata.BranchHWIndex |
		perfdata.BranchPrivSave | perfdata.BranchCounters
)

// ParseBranches reads kinds of branches with commas between them, as those of perf record -j. The result is for the field branch_sample_type of
// struct perf_event_attr. Kinds that do not say which branches stand for all branches.
func ParseBranches(list string) (kinds perfdata.BranchSampleType, err error) {
	for word := range strings.SplitSeq(list, ",") {
		bit, known := branchKinds[word]
		if !known {
			return 0, fmt.Errorf("there is no kind of branch %q; there are %s", word, strings.Join(slices.Sorted(maps.Keys(branchKinds)), ", "))
		}
		kinds |= bit
	}
	if kinds&^(branchModes|branchExtras) == 0 { // only where, and not which
		kinds |= perfdata.BranchAny
	}
	return kinds, nil
}
