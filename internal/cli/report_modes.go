package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/perfdata"
)

// checkModes checks -b and --mem-mode.
func (f *reportFlags) checkModes(format reportFormat) error {
	return firstError(
		badCombinationIf(f.branchStack && f.Memory, "-b shows branches, --mem-mode shows accesses to memory: choose one"),
		badCombinationIf((f.branchStack || f.Memory) && !format.rows, "-b and --mem-mode support the formats table, json and csv, not %s",
			format.name))
}

// ofBranches reports whether a report is of branches. Without -b and --no-branch-stack, the recording decides.
func (f *reportFlags) ofBranches(cmd *cobra.Command, format reportFormat, recorded bool) bool {
	if cmd.Flags().Changed("branch-stack") {
		return f.branchStack
	}
	return recorded && format.rows && !f.Memory
}

// madeOfBranches reports whether a recording was made with record -b. Branch stacks as callchains (--call-graph lbr) do not count.
func madeOfBranches(recording *perfdata.Reader) bool {
	value, err := recording.Features().Get(perfdata.FeatureBranchStack)
	return err == nil && value != nil && hasField(recording, perfdata.SampleBranchStack)
}

// hasField reports whether samples of an event have a field.
func hasField(recording *perfdata.Reader, field perfdata.SampleType) bool {
	return slices.ContainsFunc(recording.Events(), func(e *perfdata.Event) bool { return e.Attr.SampleType.Has(field) })
}

// checkMode checks that a recording has the samples that the report is of.
func (f *recordingFlags) checkMode(recording *perfdata.Reader) error {
	switch {
	case f.branches && !hasField(recording, perfdata.SampleBranchStack):
		return errors.New("selected -b but no branch data: make the recording with bperf record -b")
	case f.weights && !hasField(recording, perfdata.SampleDataSrc):
		return errors.New("selected --mem-mode but no memory data: make the recording with bperf record -d -W")
	}
	return nil
}
