package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/count/shared/upstream"
)

func newCountersCommand() *cobra.Command {
	var asJSON bool
	var interval int
	cmd := &cobra.Command{
		Use:   "counters [flags]",
		Short: "Show the counters that sessions share, the sessions, and what sharing costs",
		Long: `counters shows what the sessions of bperf stat --bpf-counters share now: the events, the sessions that
count them, and the BPF programs that do the counting. It also shows what these programs add to a context switch and
their share of the CPUs, which the kernel measures for a second.

It needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN. It changes nothing.`,
		Example: `  bperf counters
  bperf counters --interval 10000
  bperf counters --json | jq '.data.sessions[].pid'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 10 {
				return badCombinationf("--interval %d: the interval must be at least 10 ms", interval)
			}
			status, err := shared.Examine(shared.Where{Dir: shared.Dir, AttrMap: upstream.DefaultPath}, time.Duration(interval)*time.Millisecond)
			if err != nil {
				return err
			}
			print := printCounters
			if asJSON {
				print = printCountersJSON
			}
			return print(cmd.OutOrStdout(), status)
		},
	}
	addMilliseconds(cmd.Flags(), &interval, "interval", "", 1000, "observe the BPF programs for this long")
	addJSON(cmd.Flags(), &asJSON, countersSchema)
	return cmd
}

// countersJSON adds computed values to a status.
type countersJSON struct {
	*shared.Status
	Cost *costJSON `json:"cost"` // nil without sessions
}

type costJSON struct {
	*shared.Cost
	PerSwitch float64 `json:"ns_per_switch"` // ns that the programs add to a context switch
	Share     float64 `json:"cpu_share"`     // share of the time of all CPUs: 1 is all of it
}

func printCountersJSON(w io.Writer, s *shared.Status) error {
	object := countersJSON{Status: s}
	if s.Cost != nil {
		object.Cost = &costJSON{s.Cost, s.Cost.PerSwitch(), s.Cost.Share()}
	}
	return writeDocument(w, countersSchema, object)
}
