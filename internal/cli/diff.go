package cli

import (
	"bufio"
	"io"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
)

// diffFlags are the flags of bperf diff.
type diffFlags struct {
	input   recordingFlags
	rows    report.Options
	diff    report.Diff
	sort    []string
	compute string
	dump    bool
	json    bool
}

func newDiffCommand() *cobra.Command {
	f := diffFlags{diff: report.DefaultDiff()}
	cmd := &cobra.Command{
		Use:   "diff [flags] [OLD [NEW ...]]",
		Short: "Show whose share of the samples grew or shrank between recordings",
		Long: `diff shows each function's share of the samples in an old recording, and how much that share changed in each new one.
Without arguments it compares perf.data.old with perf.data; with one, it compares that recording with perf.data. A file can
also be the output of report or profile with --format pprof.` + debuginfodHelp,
		Example: `  bperf diff before.data after.data
  bperf diff -s dso before.data after.data
  bperf diff -c ratio v1.data v2.data v3.data
  bperf diff --json before.data after.data | jq '.data.events[].rows[:5]'`,
		RunE: f.run,
	}
	flags := cmd.Flags()
	f.input.add(flags, "")
	addRowFlags(flags, &f.rows, "C")
	flags.StringSliceVarP(&f.sort, "sort", "s", nil, "print a row for each value of `KEYS` (default dso,symbol)")
	flags.Var((*percentFlag)(&f.rows.Limit), "percent-limit", "leave out rows below `PERCENT` percent in all")
	perfHasNo(flags, "percent-limit")
	flags.StringVarP(&f.rows.Event, "event", "e", "", "compare only `EVENT`")
	flags.StringVarP(&f.compute, "compute", "c", string(f.diff.Compute), "show a `COMPARISON`: delta-abs, delta, ratio or wdiff:WEIGHT,WEIGHT")
	flags.IntVarP(&f.diff.Order, "order", "o", f.diff.Order, "order the rows by the comparison of recording `N`, or by the shares in the first (0)")
	flags.BoolVarP(&f.diff.BaselineOnly, "baseline-only", "b", false, "leave out rows that the first recording lacks")
	flags.BoolVarP(&f.diff.Periods, "period", "p", false, "show the sums of the periods")
	flags.BoolVarP(&f.diff.Formulas, "formula", "F", false, "show how each comparison is computed")
	flags.BoolVarP(&f.rows.NoHeads, "quiet", "q", false, "print only rows and errors")
	addJSON(flags, &f.json, diffSchema)
	addDump(flags, &f.dump)
	addPerfOptions(flags, diffPerfOptions)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, args []string) error {
	names := []string{"perf.data.old", "perf.data"}
	names = append(args, names[min(len(args), len(names)):]...)
	if len(f.sort) == 0 {
		f.sort = report.DefaultDiffSort()
	}
	sortErr := f.rows.SetSort(f.sort, report.DefaultDiffSort())
	keys, err := f.rows.NeededKeys()
	if err := firstError(sortErr, err, f.diff.SetCompute(f.compute)); err != nil {
		return badOption(err)
	}
	if f.diff.Order < 0 || f.diff.Order >= len(names) {
		return badOptionf("--order %d: it is a number from 0 to %d, the last recording", f.diff.Order, len(names)-1)
	}
	if f.rows.NoHeads {
		cmd.SetErr(io.Discard)
	}
	f.input.fetch(cmd.ErrOrStderr())
	printOnce(cmd)
	var profiles []*profile.Profile
	for _, name := range names {
		if f.dump {
			if err := f.dumpFile(cmd, name); err != nil {
				return err
			}
		}
		p, err := f.input.readFile(cmd, name, keys)
		if err != nil {
			return err
		}
		profiles = append(profiles, p)
	}
	if !f.json {
		return report.WriteDiff(cmd.OutOrStdout(), profiles, names, &f.rows, f.diff)
	}
	data, err := report.NewDiffJSON(profiles, names, &f.rows, f.diff)
	if err != nil {
		return err
	}
	return writeDocument(cmd.OutOrStdout(), diffSchema, data)
}

// dumpFile writes all records of one of the recordings, which is read again afterwards.
func (f *diffFlags) dumpFile(cmd *cobra.Command, name string) error {
	if isCompressed(name) {
		return badCombinationf("-D prints the records of recordings: %s is a pprof profile", name)
	}
	if !regularFile(name, perfdata.IsRecording) {
		return badCombinationf("-D reads each recording twice: %s is no file with one", name)
	}
	f.input.path = name
	recording, err := openRecording(name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer recording.Close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	_, _, err = f.input.dumpRecords(out, recording)
	return firstError(err, out.Flush())
}
