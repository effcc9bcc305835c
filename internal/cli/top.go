package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
)

// topOptions are the flags.
type topOptions struct {
	delay float64 // seconds
	count int
	once  bool
	sort  string
}

func newTopCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [flags] [SELECTOR]",
		Short: "Show which BPF programs run, how often, and what they cost, live",
		Long: `top shows what the BPF programs that are loaded, or those that are selected, do: share of a CPU, runs per second,
run time per run. On a terminal it is a screen with keys to sort, filter, pause and look into a program; else, and
with -n or --once, it prints a table at each interval.

` + selectorHelp + `

It needs root, or CAP_SYS_ADMIN and CAP_BPF. It lets the kernel count the runs of all BPF programs until it ends.`,
		Example: `  bperf top
  bperf top -d 5 type:xdp,name:'cil_*'
  bperf top --once --sort runs`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return runTop(cmd, o, args)
		},
	}
	f := cmd.Flags()
	f.Float64VarP(&o.delay, "delay", "d", 1, "length of an interval in `SECONDS` (at least 0.1)")
	f.IntVarP(&o.count, "iterations", "n", 0, "print `COUNT` tables and end")
	f.BoolVar(&o.once, "once", false, "print a table and end, as -n 1 does")
	f.StringVarP(&o.sort, "sort", "s", "cpu", "sort by `COLUMN`: "+strings.Join(topNames(), ", "))
	if err := cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

// check refuses what cannot be, before anything is counted.
func (o *topOptions) check(given func(string) bool) error {
	switch {
	case !(o.delay >= 0.1 && o.delay <= 1e6): // NaN is neither
		return badValue("--delay %g: an interval is at least 0.1 seconds, and at most 1000000", o.delay)
	case o.once && given("iterations"):
		return badValue("--once is --iterations 1: give one of the two")
	case given("iterations") && o.count < 1:
		return badValue("--iterations %d: a number of tables is 1 or more", o.count)
	case !slices.Contains(topNames(), o.sort):
		return badColumn(o.sort, topNames())
	}
	if o.once {
		o.count = 1
	}
	return nil
}

func (o *topOptions) interval() time.Duration { return time.Duration(o.delay * float64(time.Second)) }

func runTop(cmd *cobra.Command, o topOptions, args []string) error {
	selector, err := bpfprog.Parse(slices.Concat(args, []string{"all"})[0])
	if err != nil {
		return &ExitError{Status: statusBadOption, Err: err}
	}
	source, missing, err := newTopSource(selector)
	if err != nil {
		return err
	}
	defer source.close()
	if len(args) > 0 && len(missing) > 0 {
		return missingItems(missing)
	}
	ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	if o.count == 0 && onTerminal(os.Stdin) && onTerminal(cmd.OutOrStdout()) && os.Getenv("TERM") != "dumb" {
		return showTop(ctx, topScreen{next: source.next, examine: examineProgram, interval: o.interval(), order: topOrder{column: topIndex(o.sort)}})
	}
	return ended(printTop(ctx, cmd.OutOrStdout(), source.next, topOrder{column: topIndex(o.sort)}, o.interval(), o.count))
}

func onTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// topReading is what was observed in an interval.
type topReading struct {
	*bpfprog.Observation
	cost topCost
}

// topCost is what it costs to observe.
type topCost struct {
	own     float64       // CPUs that this process kept busy
	perRun  time.Duration // that counting adds to each run of a program; 0 if it is too little to be measured
	unknown bool          // perRun could not be measured
}

// topSource observes programs, and itself.
type topSource struct {
	observer *bpfprog.Observer
	cost     topCost
	used     time.Duration // CPU time of this process so far
}

// newTopSource begins to observe. Whatever keeps it from measuring what that costs, programs can be observed.
func newTopSource(s bpfprog.Selector) (*topSource, []*bpfprog.NoMatchError, error) {
	perRun, err := bpfprog.AddedByCounting()
	source := &topSource{cost: topCost{perRun: perRun, unknown: err != nil}}
	observer, missing, err := bpfprog.Observe(s)
	if err != nil {
		return nil, nil, err
	}
	source.observer = observer
	source.used, err = cpuTime()
	return source, missing, err
}

func (s *topSource) close() error { return s.observer.Close() }

func (s *topSource) next() (*topReading, error) {
	observation, err := s.observer.Next()
	if err != nil {
		return nil, err
	}
	used, err := cpuTime()
	if err != nil {
		return nil, err
	}
	r := &topReading{observation, s.cost}
	r.cost.own = float64(used-s.used) / float64(observation.Window)
	s.used = used
	return r, nil
}

// cpuTime is that of this process, in the kernel and outside.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
