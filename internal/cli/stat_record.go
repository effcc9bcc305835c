package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/perfdata"
)

func newStatRecordCommand() *cobra.Command {
	var o statOptions
	cmd := &cobra.Command{
		Use:   "record [flags] [--] [COMMAND [ARG...]]",
		Short: "Count, print the counts, and record them",
		Long: `record counts like stat, and also records the counts, for bperf stat report and perf stat report. -o names the recording, which is
perf.data without it; with -o - it goes to standard output, and nothing is printed.`,
		Example: `  bperf stat record -- make -j8
  bperf stat record -a -I 1000 -o counts.data sleep 60
  bperf stat -e cycles,instructions record -o - -- make | bperf stat report`,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if err := o.checkRecord(); err != nil {
				return err
			}
			o.recording, o.output = o.output, ""
			if o.recording == "" {
				o.recording = "perf.data"
			}
			return runStat(&o, given, args)
		},
	}
	readsCommand(cmd)
	o.addFlags(cmd.Flags())
	cmd.Flags().Lookup("output").Usage = "write the recording to `FILE` (- for standard output)"
	return cmd
}

// checkRecord returns an error for options of stat that cannot be recorded.
func (o *statOptions) checkRecord() error {
	bad := badCombinationIf
	return firstError(
		bad(o.repeat != 1, "-r: a recording has room for one run"),
		bad(o.programs != "", "-b: a recording has no room for the counts of BPF programs"),
		bad(o.forEachCgroup != "" || o.has(argCgroups), "-G and --for-each-cgroup: a recording has no room for the names of cgroups"),
		bad(o.null, "-n: without events there is nothing to record"),
		bad(o.appendOutput, "--append: stat record writes a new recording"),
	)
}

// recordCounts returns where to record the counts of events.
func (o *statOptions) recordCounts(events []*event.Event) (*stat.Recording, error) {
	r := &stat.Recording{Pipe: o.recording == "-", Features: host.Machine(os.DirFS("/"))}
	maps.Copy(r.Features, host.Features{perfdata.FeatureStat: perfdata.Flag{}, perfdata.FeatureVersion: perfdata.Text(currentVersion()),
		perfdata.FeatureCmdline: perfdata.CommandLine(slices.Clone(os.Args))})
	r.Create = func() (io.WriteCloser, error) {
		if r.Pipe {
			return os.Stdout, nil
		}
		return createRecording(o.recording)
	}
	var tracepoints []string
	for _, e := range events {
		if e.Tracepoint != "" {
			tracepoints = append(tracepoints, e.Tracepoint)
		}
	}
	if len(tracepoints) == 0 || r.Pipe {
		return r, nil
	}
	formats, err := host.Tracing(os.DirFS(procfs.Tracefs()), tracepoints) // perf refuses a file with tracepoints that has no formats
	r.Features[perfdata.FeatureTracingData] = formats
	return r, err
}

// createRecording creates the file of a recording. As in perf, an existing file is kept as NAME.old.
func createRecording(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		err = os.Rename(name, name+".old")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the recording that is there already: %w", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a recording: %w", err)
	}
	return f, nil
}
