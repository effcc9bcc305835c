package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/stat"
)

func newStatReportCommand() *cobra.Command {
	var o statOptions
	var f recordingFlags
	var metrics []string
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Print the counts of a recording",
		Long: `report prints the counts that bperf stat record or perf stat record has recorded, as the recorded session printed them or added up
in another way. Like those of stat, they go to standard error.`,
		Example: `  bperf stat report
  bperf stat report --per-socket
  bperf stat report -M TopdownL1 -A
  bperf stat report -x, -i other.data`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			err := firstError(o.checkOutput(given), o.parseCacheLevel(given("per-cache")),
				badCombinationIf(o.places() > 1, "each of -A, --per-core and the others says what a line covers: give only one"))
			if err != nil {
				return err
			}
			reader, err := f.open(cmd.InOrStdin())
			if err != nil {
				return &exitError{Status: statusFailed, Err: err}
			}
			defer reader.Close()
			out, err := o.open(given)
			if err != nil {
				return err
			}
			form := o.form()
			if metrics != nil {
				if form.Metrics, err = stat.OwnMetrics(metrics); err != nil {
					return badOption(err)
				}
			}
			cfg := stat.ReportConfig{CacheLevel: o.cacheLevel, NoMerge: o.noMerge, Output: form, Notify: o.noter(given),
				Metrics: metrics, CPU: os.Getenv(event.CPUVariable),
				Printer: func(form stat.OutputOptions) stat.Printer { return o.printerOf(form, out) }}
			if o.places() > 0 {
				by := o.aggregation()
				cfg.Aggregation = &by
			}
			if err := errors.Join(stat.Report(reader, cfg), out.Close()); err != nil {
				return &exitError{Status: statusFailed, Err: err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.addInput(flags)
	flags.StringSliceVarP(&metrics, "metrics", "M", nil, "compute the metrics of this `LIST` from the recorded events")
	o.addPlaces(flags)
	o.addOutput(flags)
	addPerfOptions(flags, recordingPerfOptions)
	return cmd
}
