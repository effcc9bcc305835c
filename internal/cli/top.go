package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/top"
)

// topOptions are the flags of bperf top.
type topOptions struct {
	delay float64 // seconds
	count int
	once  bool
	sort  string
	by    string
	args  []eventArg

	eventFiles string // the directory with more events of the CPU; empty for the default
}

func newTopCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [flags] [SELECTOR]",
		Short: "Show live which BPF programs, processes or cgroups use the CPUs, and for what",
		Long: `top shows what the loaded or the selected BPF programs do: share of a CPU, runs per second, run time per run; with -e
also events per run. With --by process or --by cgroup it shows the share of the CPUs that processes or cgroups use, and
events per second. On a terminal it is a screen with keys to sort, filter, pause and show details of a row; otherwise, and
with -n or --once, it prints a table for each interval.

` + selectorHelp + `

It needs root, or CAP_SYS_ADMIN, CAP_BPF and with events or --by CAP_PERFMON. It lets the kernel count the runs of all
BPF programs until it ends.`,
		Example: `  bperf top
  bperf top -d 5 type:xdp,name:'cil_*'
  bperf top --by process -e cycles,instructions
  bperf top --once --sort runs`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed, args); err != nil {
				return err
			}
			return runTop(cmd, o, args)
		},
	}
	f := cmd.Flags()
	addSeconds(f, &o.delay, "delay", "d", 1, "length of an interval")
	f.IntVarP(&o.count, "iterations", "n", 0, "print `COUNT` tables, then end")
	f.BoolVar(&o.once, "once", false, "print one table, then end; the same as -n 1")
	f.StringVarP(&o.sort, "sort", "s", "cpu", "sort by `COLUMN`: cpu, id, name; of programs runs, ns, type; of others switches; an event, ipc")
	f.VarP(eventFlag{&o.args, argEvents}, "event", "e", "also count these events: per run of a program, or per second")
	addEventFiles(f, &o.eventFiles)
	f.StringVar(&o.by, "by", topPrograms, "show `WHAT`: "+strings.Join(topSubjects, ", "))
	addOn(f)
	completeFlag(cmd, "by", topSubjects)
	return cmd
}

// topPrograms is the default of --by.
const topPrograms = "prog"

var topSubjects = []string{topPrograms, string(process.ByProcess), string(process.ByCgroup)}

// check returns an error for invalid options, before anything is counted.
func (o *topOptions) check(given func(string) bool, args []string) error {
	switch {
	case !(o.delay >= 0.1 && o.delay <= 1e6): // NaN fails both comparisons
		return badCombinationf("--delay %g: the interval must be from 0.1 to 1000000 seconds", o.delay)
	case o.once && given("iterations"):
		return badCombinationf("--once means --iterations 1: give only one")
	case given("iterations") && o.count < 1:
		return badCombinationf("--iterations %d: the number of tables must be at least 1", o.count)
	case !slices.Contains(topSubjects, o.by):
		return badCombinationf("--by %s: the values are %s", o.by, strings.Join(topSubjects, ", "))
	case o.by != topPrograms && len(args) > 0:
		return badCombinationf("%s selects BPF programs, which --by %s does not show", args[0], o.by)
	}
	if o.once {
		o.count = 1
	}
	return nil
}

func (o *topOptions) interval() time.Duration { return time.Duration(o.delay * float64(time.Second)) }

func runTop(cmd *cobra.Command, o topOptions, args []string) error {
	var list event.List
	if len(o.args) > 0 {
		warn := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), printable.Lines(s)) }
		chosen := chosenEvents{machine: hostWith(o.eventFiles, warn)}
		for _, a := range o.args {
			if err := chosen.parse(a.value); err != nil {
				return badOption(err)
			}
		}
		list = chosen.list
	}
	source, examine, err := o.open(list, args)
	if err != nil {
		return err
	}
	defer source.Close()
	column, err := topColumn(source, o.sort)
	if err != nil {
		return err
	}
	ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	order := top.Order{Column: column}
	if o.count == 0 && onScreen(cmd.OutOrStdout()) {
		return showTop(ctx, topScreen{columns: source.Columns(), examine: examine, order: order}, source, o.interval())
	}
	return ended(printTop(ctx, cmd.OutOrStdout(), source, order, o.interval(), o.count))
}

// open starts to observe. It also returns a function that describes the program, process or cgroup with an ID.
func (o *topOptions) open(list event.List, args []string) (top.Source, func(id uint64) (string, error), error) {
	if o.by != topPrograms {
		source, err := top.OpenTasks(process.Key(o.by), list)
		if o.by == string(process.ByCgroup) {
			return source, top.ExamineCgroup, err
		}
		return source, top.ExamineProcess, err
	}
	selector, err := parseSelector(args)
	if err != nil {
		return nil, nil, err
	}
	source, missing, err := top.OpenPrograms(selector, list)
	if err != nil {
		return nil, nil, err
	}
	if len(args) > 0 && len(missing) > 0 {
		source.Close()
		return nil, nil, missingItems(missing)
	}
	return source, func(id uint64) (string, error) { return examineProgram(id, source.Distributions(id)) }, nil
}

// topColumn returns the index of the named column.
func topColumn(source top.Source, name string) (int, error) {
	var names []string
	for _, c := range source.Columns() {
		names = append(names, c.Name)
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return -1, badColumn(source.Subject(), name, names)
}

func onTerminal(file any) bool {
	f, ok := file.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(f.Fd())
}
