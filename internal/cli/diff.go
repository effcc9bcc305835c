package cli

import (
	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/report"
)

func newDiffCommand() *cobra.Command {
	var input recordingFlags
	o := &report.Options{}
	cmd := &cobra.Command{
		Use:   "diff [flags] [OLD [NEW]]",
		Short: "Show whose share of the samples grew or shrank between two recordings",
		Long: `diff shows each function's share of the samples in an old recording, and how much that share changed in a new one.
Without arguments it compares perf.data.old with perf.data; with one, it compares that recording with perf.data. A file can
also be the output of report or profile with --format pprof.`,
		Example: `  bperf diff before.data after.data
  bperf diff -s dso before.data after.data`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths := []string{"perf.data.old", "perf.data"}
			copy(paths, args)
			sorting := *o
			if len(sorting.Sort) == 0 {
				sorting.Sort = report.DefaultDiffSort()
			}
			keys, err := sorting.NeededKeys()
			if err != nil {
				return badOption(err)
			}
			before, err := input.readFile(cmd, paths[0], keys)
			if err != nil {
				return err
			}
			after, err := input.readFile(cmd, paths[1], keys)
			if err != nil {
				return err
			}
			return report.WriteDiff(cmd.OutOrStdout(), before, after, &sorting)
		},
	}
	flags := cmd.Flags()
	input.add(flags)
	flags.StringSliceVarP(&o.Sort, "sort", "s", nil, "print a row for each value of `KEYS` (default dso,symbol)")
	flags.Var((*percentFlag)(&o.Limit), "percent-limit", "leave out rows below `PERCENT` percent in both")
	flags.StringVarP(&o.Event, "event", "e", "", "compare only `EVENT`")
	addRowFilters(flags, o)
	return cmd
}
