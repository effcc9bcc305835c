package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
)

func newProgStatsCommand() *cobra.Command {
	var interval, count int
	var format string
	var asJSON bool
	formats := slices.Sorted(maps.Keys(statsFormats))
	cmd := &cobra.Command{
		Use:   "stats [flags] [SELECTOR]",
		Short: "Print the runs and the run time of BPF programs at an interval, for scripts and node agents",
		Long: `stats prints what the loaded or selected BPF programs did in each interval: runs, run time, and runs that the kernel
skipped because the program was already running on that CPU. Programs that are loaded while it runs are added, and
unloaded ones disappear.

` + selectorHelp + `

It ends at SIGINT or SIGTERM, after --count intervals, or when its output has no reader any more.

It needs root, or CAP_SYS_ADMIN and CAP_BPF. It lets the kernel count the runs of all BPF programs until it ends.`,
		Example: `  bperf prog stats -I 5000
  bperf prog stats --json type:xdp | jq '.data | select(.use.cpus > 0.01)'
  bperf prog stats --format openmetrics --count 1 > programs.prom`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				format = "json"
			}
			write, known := statsFormats[format]
			switch {
			case !known:
				return badCombinationf("--format %s: the formats are %s", format, strings.Join(formats, ", "))
			case interval < 10:
				return badCombinationf("--interval %d: the interval must be at least 10 ms", interval)
			case count < 0:
				return badCombinationf("--count %d: give a number of intervals, or 0 for no end", count)
			}
			selector, err := parseSelector(args)
			if err != nil {
				return err
			}
			observer, missing, err := bpfprog.Observe(selector)
			if err != nil {
				return err
			}
			defer observer.Close()
			if len(args) > 0 && len(missing) > 0 {
				return missingItems(missing)
			}
			ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
			defer stop()
			return ended(printProgStats(ctx, cmd.OutOrStdout(), observer.Next, write, time.Duration(interval)*time.Millisecond, count))
		},
	}
	addMilliseconds(cmd.Flags(), &interval, "interval", "I", 1000, "length of an interval")
	cmd.Flags().IntVar(&count, "count", 0, "end after `N` intervals")
	cmd.Flags().StringVar(&format, "format", "csv", "print `FORMAT`: "+strings.Join(formats, ", "))
	addJSONLines(cmd.Flags(), &asJSON, progStatsSchema)
	addOn(cmd.Flags())
	completeFlag(cmd, "format", formats)
	return cmd
}

// printProgStats prints each observation that next returns, with one write per interval, until the context is done or count intervals are
// printed.
func printProgStats(ctx context.Context, w io.Writer, next func() (*bpfprog.Observation, error), write statsWriter, interval time.Duration, count int) error {
	return printIntervals(ctx, w, "the statistics", interval, count, func(b *bytes.Buffer, first bool) error {
		observation, err := next()
		if err == nil {
			write(b, observation, first)
		}
		return err
	})
}

// statsWriter writes an interval. If first is true, it also writes the header.
type statsWriter func(b *bytes.Buffer, o *bpfprog.Observation, first bool)

var statsFormats = map[string]statsWriter{"csv": writeStatsCSV, "json": writeStatsJSON, "openmetrics": writeStatsOpenMetrics}

func writeStatsCSV(b *bytes.Buffer, o *bpfprog.Observation, first bool) {
	w := csv.NewWriter(b) // it has no errors, because the buffer has none
	if first {
		w.Write([]string{"time", "window_ns", "id", "type", "name", "tag", "run_count", "run_time_ns", "recursion_misses", "cpus"})
	}
	for _, p := range o.Programs {
		w.Write([]string{o.Time.Format(time.RFC3339Nano), strconv.FormatInt(int64(o.Window), 10), decimal(p.ID), p.Type.String(), p.Name, p.Tag,
			decimal(p.Use.Runs), strconv.FormatInt(int64(p.Use.RunTime), 10), decimal(p.Use.Missed), strconv.FormatFloat(p.Use.CPUs, 'f', 6, 64)})
	}
	w.Flush()
}

// statsJSON is a program in an interval. It uses the keys of prog list.
type statsJSON struct {
	Window time.Duration `json:"window_ns"` // length of the interval
	ID     uint32        `json:"id"`
	Type   bpfprog.Type  `json:"type"`  // as in prog list
	Name   string        `json:"name"`  // as in prog list
	Tag    string        `json:"tag"`   // as in prog list
	Stats  bpfprog.Stats `json:"stats"` // since the program was loaded, as far as somebody let the kernel count
	Use    bpfprog.Use   `json:"use"`   // in the interval
}

func writeStatsJSON(b *bytes.Buffer, o *bpfprog.Observation, _ bool) {
	for _, p := range o.Programs {
		writeRecord(b, progStatsSchema, o.Time, // cannot fail: numbers and strings can be encoded
			statsJSON{o.Window, p.ID, p.Type, p.Name, p.Tag, p.Program.Stats, p.Use})
	}
}

// statsMetric is a counter of OpenMetrics (https://prometheus.io/docs/specs/om/open_metrics_spec/).
type statsMetric struct {
	name, unit, help string
	value            func(bpfprog.Stats) string
}

var metrics = []statsMetric{
	{"bperf_prog_runs", "", "Runs of a BPF program since it was loaded, as far as they were counted.",
		func(s bpfprog.Stats) string { return decimal(s.Runs) }},
	{"bperf_prog_run_time_seconds", "seconds", "Time that these runs took.",
		func(s bpfprog.Stats) string {
			return fmt.Sprintf("%d.%09d", s.RunTime/time.Second, s.RunTime%time.Second)
		}},
	{"bperf_prog_recursion_misses", "", "Runs that the kernel skipped because the program was already running on that CPU.",
		func(s bpfprog.Stats) string { return decimal(s.Missed) }},
}

// writeStatsOpenMetrics writes an exposition with the totals since each program was loaded. The reader computes differences.
func writeStatsOpenMetrics(b *bytes.Buffer, o *bpfprog.Observation, _ bool) {
	for _, m := range metrics {
		fmt.Fprintf(b, "# TYPE %s counter\n", m.name)
		if m.unit != "" {
			fmt.Fprintf(b, "# UNIT %s %s\n", m.name, m.unit)
		}
		fmt.Fprintf(b, "# HELP %s %s\n", m.name, m.help)
		for _, p := range o.Programs {
			fmt.Fprintf(b, "%s_total{id=\"%d\",name=\"%s\",type=\"%s\",tag=\"%s\"} %s\n",
				m.name, p.ID, labelValue(p.Name), labelValue(p.Type.String()), labelValue(p.Tag), m.value(p.Program.Stats))
		}
	}
	b.WriteString("# EOF\n")
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelValue escapes a label's value, which OpenMetrics requires to be UTF-8.
func labelValue(s string) string { return labelEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }
