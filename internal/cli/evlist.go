package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
)

func newEvlistCommand() *cobra.Command {
	var f recordingFlags
	var o report.EventsOptions
	cmd := &cobra.Command{
		Use:   "evlist [flags]",
		Short: "List the events of a recording",
		Long:  `evlist prints the names of the events of a recording, one per line, as perf evlist does.`,
		Example: `  bperf evlist
  bperf evlist -F
  bperf evlist -v -i other.data`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Groups && (o.Attr || o.Rate) {
				return badOptionf("-g cannot be combined with -v or -F: it prints only names")
			}
			r, err := f.open(cmd.InOrStdin())
			if err != nil {
				return err
			}
			defer r.Close()
			if f.path == "-" {
				if err := readAll(r); err != nil {
					return err
				}
			}
			return report.Events(cmd.OutOrStdout(), r, o)
		},
	}
	flags := cmd.Flags()
	f.addInput(flags)
	addPerfOptions(flags, recordingPerfOptions)
	flags.BoolVarP(&o.Rate, "freq", "F", false, "also print the sampling frequency or period of each event")
	flags.BoolVarP(&o.Attr, "verbose", "v", false, "also print all fields of each event's attributes that are not 0")
	flags.BoolVarP(&o.Groups, "group", "g", false, "print the events of a group in one line, in braces")
	flags.BoolVar(&o.TraceFields, "trace-fields", false, "also print the fields of tracepoints")
	return cmd
}

// readAll reads a recording to its end, and drops the records. The program at the other end of a pipe would die of SIGPIPE otherwise, and what
// it writes about its events can come later.
func readAll(r *perfdata.Reader) error {
	for _, err := range r.Batches() {
		if err != nil {
			return fmt.Errorf("read the rest of the recording: %w", err)
		}
	}
	return nil
}
