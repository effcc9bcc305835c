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
	delay    float64 // seconds
	count    int
	once     bool
	sort     string
	by       string
	stdio    bool
	json     bool
	sampling recordOptions // events, also of other rows than functions, and how and where these are sampled
}

func newTopCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [flags] [SELECTOR]",
		Short: "Show live which functions, BPF programs, processes, threads or cgroups use the CPUs, and for what",
		Long: `top shows what the loaded or the selected BPF programs do: share of a CPU, runs per second, run time per run; with -e
also events per run. With --by process, thread or cgroup it shows the share of the CPUs that these use, and events per
second. With --by function it samples an event, and shows in which functions of the kernel, of programs and of
BPF programs; options of sampling (-F, -c, -p, -t, -C, -a, -G, -g) imply that, and so does a machine without BPF programs.

On a terminal it is a screen with keys to sort, filter, pause and show details of a row; otherwise, and with -n, --once or
--stdio, it prints a table for each interval, or a line of JSON with --json.

` + selectorHelp + `

It needs root, or CAP_SYS_ADMIN, CAP_BPF and with events or --by CAP_PERFMON. It lets the kernel count the runs of all
BPF programs until it ends, unless it shows functions.`,
		Example: `  bperf top
  bperf top -d 5 type:xdp,name:'cil_*'
  bperf top --by process -e cycles,instructions
  bperf top --by function -g
  bperf top -p 1234 -e page-faults -c 1
  bperf top --once --sort runs`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed, args); err != nil {
				return err
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	addSeconds(f, &o.delay, "delay", "d", 1, "length of an interval")
	f.IntVarP(&o.count, "iterations", "n", 0, "print `COUNT` tables, then end")
	f.BoolVar(&o.once, "once", false, "print one table, then end; the same as -n 1")
	f.StringVarP(&o.sort, "sort", "s", "", "sort by `COLUMN`: cpu, id, name; of programs runs, ns, type; of processes, threads and cgroups switches; an event, ipc; "+
		"of functions share, total, samples, object, name (default the first one)")
	f.VarP(eventFlag{&o.sampling.events, argEvents}, "event", "e", "also count these events: per run of a program, or per second; "+
		"of functions: sample these (default cycles, or cpu-clock without a PMU)")
	addEventFiles(f, &o.sampling.eventFiles)
	f.StringVar(&o.by, "by", topPrograms, "show `WHAT`: "+strings.Join(topSubjects, ", "))
	f.BoolVar(&o.stdio, "stdio", false, "print tables on a terminal, too")
	f.BoolVar(&o.json, "json", false, "print JSON, a line each, "+string(topSchema)) // -j is --branch-filter of perf's top
	o.addSampling(f)
	addOn(f)
	completeFlag(cmd, "by", topSubjects)
	return cmd
}

// Values of --by. The first one is the default.
const (
	topPrograms  = "program"
	topFunctions = "function"
)

var topSubjects = []string{topPrograms, string(process.ByProcess), string(process.ByThread), string(process.ByCgroup), topFunctions}

// check returns an error for invalid options, before anything is counted.
func (o *topOptions) check(given func(string) bool, args []string) error {
	if o.by == "prog" { // as in the selectors of other commands
		o.by = topPrograms
	}
	sampled := slices.IndexFunc(topSampling, given)
	if !given("by") && len(args) == 0 && (sampled >= 0 || !given("sort") && !given("event") && !programsLoaded()) {
		o.by = topFunctions
	}
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
	case o.by != topFunctions && sampled >= 0:
		return badCombinationf("--%s is for samples of functions: give it with --by %s", topSampling[sampled], topFunctions)
	case o.by == topFunctions:
		if err := o.sampling.check(given, args); err != nil {
			return err
		}
	}
	if o.once {
		o.count = 1
	}
	return nil
}

func (o *topOptions) interval() time.Duration { return time.Duration(o.delay * float64(time.Second)) }

func (o *topOptions) run(cmd *cobra.Command, args []string) error {
	screen := o.count == 0 && !o.stdio && !o.json && onScreen(cmd.OutOrStdout())
	source, details, err := o.open(cmd, args, screen)
	if err != nil {
		return err
	}
	defer source.Close()
	column := 0
	if o.sort != "" {
		if column, err = topColumn(source, o.sort); err != nil {
			return err
		}
	}
	ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	order := top.Order{Column: column}
	if screen {
		s := topScreen{columns: source.Columns(), topDetails: details, order: order, live: o.by == topFunctions}
		return showTop(ctx, s, source, o.interval())
	}
	p := topPrinter{source, order, o.json}
	return ended(p.run(ctx, cmd.OutOrStdout(), o.interval(), o.count))
}

// events returns the events that are counted.
func (o *topOptions) events(cmd *cobra.Command) (event.List, error) {
	if len(o.sampling.events) == 0 {
		return nil, nil
	}
	warn := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), printable.Lines(s)) }
	chosen := chosenEvents{machine: hostWith(o.sampling.eventFiles, warn)}
	for _, a := range o.sampling.events {
		if err := chosen.parse(a.value); err != nil {
			return nil, badOption(err)
		}
	}
	return chosen.list, nil
}

// open starts to observe. It also returns what describes the program, process, cgroup or function with an ID.
func (o *topOptions) open(cmd *cobra.Command, args []string, screen bool) (source top.Source, details topDetails, err error) {
	if o.by == topFunctions {
		return o.openFunctions(cmd, screen)
	}
	list, err := o.events(cmd)
	if err != nil {
		return nil, details, err
	}
	if o.by != topPrograms {
		details.examine = top.ExamineProcess
		if o.by == string(process.ByCgroup) {
			details.examine = top.ExamineCgroup
		}
		source, err := top.OpenTasks(process.Key(o.by), list)
		return source, details, err
	}
	selector, err := parseSelector(args)
	if err != nil {
		return nil, details, err
	}
	programs, missing, err := top.OpenPrograms(selector, list)
	if err != nil {
		return nil, details, err
	}
	if len(args) > 0 && len(missing) > 0 {
		programs.Close()
		return nil, details, missingItems(missing)
	}
	details.examine = func(id uint64) (string, error) { return examineProgram(id, programs.Distributions(id)) }
	details.past = programs.Past
	return programs, details, nil
}

// topColumn returns the index of the named column.
func topColumn(source top.Source, name string) (int, error) {
	var names []string
	for i, c := range source.Columns() {
		switch {
		case c.Kind == top.Trend:
		case c.Name == name:
			return i, nil
		default:
			names = append(names, c.Name)
		}
	}
	return -1, badColumn(source.Subject(), name, names)
}

func onTerminal(file any) bool {
	f, ok := file.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(f.Fd())
}
