package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/perfevent"
)

// branchKinds are perf's words for enum perf_branch_sample_type (include/uapi/linux/perf_event.h).
var branchKinds = map[string]uint64{
	"u": perfevent.BranchUser, "k": perfevent.BranchKernel, "hv": perfevent.BranchHV,
	"any": perfevent.BranchAny, "any_call": perfevent.BranchAnyCall, "any_ret": perfevent.BranchAnyReturn,
	"ind_call": perfevent.BranchIndCall, "ind_jmp": perfevent.BranchIndJump, "call": perfevent.BranchCall, "cond": perfevent.BranchCond,
	"abort_tx": perfevent.BranchAbortTx, "in_tx": perfevent.BranchInTx, "no_tx": perfevent.BranchNoTx,
	"no_flags": perfevent.BranchNoFlags, "no_cycles": perfevent.BranchNoCycles, "save_type": perfevent.BranchTypeSave,
	"stack": perfevent.BranchCallStack, "hw_index": perfevent.BranchHWIndex, "priv": perfevent.BranchPrivSave, "counter": perfevent.BranchCounters,
}

// branchModes are the kinds that say where a branch is, and branchExtras those that say what is recorded of it.
const (
	branchModes  = perfevent.BranchUser | perfevent.BranchKernel | perfevent.BranchHV
	branchExtras = perfevent.BranchNoFlags | perfevent.BranchNoCycles | perfevent.BranchTypeSave | perfevent.BranchHWIndex |
		perfevent.BranchPrivSave | perfevent.BranchCounters
)

// ParseBranches reads kinds of branches with commas between them, as those of perf record -j. The result is for the field branch_sample_type of
// struct perf_event_attr. Kinds that do not say which branches stand for all branches.
func ParseBranches(list string) (kinds uint64, err error) {
	for word := range strings.SplitSeq(list, ",") {
		bit, known := branchKinds[word]
		if !known {
			return 0, fmt.Errorf("there is no kind of branch %q; there are %s", word, strings.Join(slices.Sorted(maps.Keys(branchKinds)), ", "))
		}
		kinds |= bit
	}
	if kinds&^(branchModes|branchExtras) == 0 { // only where, and not which
		kinds |= perfevent.BranchAny
	}
	return kinds, nil
}
