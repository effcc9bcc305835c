package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
)

func newReportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report [flags] [FILE|SYMBOL]",
		Short: "Show where the samples of a recording were taken",
		Long: `report reads a recording of bperf record or perf record and shows in which functions the samples were taken and what called
these functions. On a terminal it is a screen to walk through, whose keys ? shows: open call trees, search, annotate functions, show only a
thread or a file. Otherwise, and with --stdio, it prints a table as perf report --stdio does. With --format it writes files for
other tools. With --http it serves pages for a browser on this machine: flame graphs of selected threads and times, differences,
functions and their instructions.

An argument is the recording or, if it is no name of one, selects the functions with this text in their names.` + debuginfodHelp,
		Example: `  bperf report
  bperf report --no-children -s prog,sym
  bperf report -i before.data -g caller --percent-limit 1
  bperf report --format html -o profile.html
  bperf report --http
  bperf report --format flamegraph --diff before.data -o changes.svg`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.take(args[0])
			}
			return f.run(cmd)
		},
	}
	f.input.addInput(cmd.Flags())
	f.input.add(cmd.Flags(), "C")
	addPerfOptions(cmd.Flags(), samplesPerfOptions, screenPerfOptions, callsPerfOptions, reportPerfOptions)
	f.add(cmd)
	return cmd
}

// reportFlags are the flags of bperf report. It has many fields because each of perf's flags has one.
type reportFlags struct {
	input recordingFlags

	format, output, base string
	json                 bool // as --format json
	http                 string
	sort, fields         []string
	callGraph            string
	children             bool
	inverted             bool
	parent               string
	excludeOther         bool
	ignoreCallees        string
	header, headerOnly   bool
	topology             bool
	stats, dump          bool
	tasks, mmaps         bool
	threads, totalCycles bool
	branchStack          bool
	stdio, tui           bool
	source               bool
	code                 annotate.Options     // of functions on the screen
	codeText             annotate.TextOptions // likewise

	report.Options
}

// reportFormat is a format of --format.
type reportFormat struct {
	name   string
	ending string       // of files in this format; empty if several have it
	keys   profile.Keys // the keys that it shows besides the sort keys
	binary bool
	one    bool                                                                 // it shows only one event
	rows   bool                                                                 // it shows only rows with their call trees
	write  func(w io.Writer, p, base *profile.Profile, o *report.Options) error // base is nil without --diff
	diffs  bool                                                                 // it supports --diff
}

// alone adapts a writer of one profile to reportFormat.write.
func alone(write func(io.Writer, *profile.Profile, *report.Options) error) func(io.Writer, *profile.Profile, *profile.Profile, *report.Options) error {
	return func(w io.Writer, p, _ *profile.Profile, o *report.Options) error { return write(w, p, o) }
}

// writeProfileJSON writes a profile as a document.
func writeProfileJSON(w io.Writer, p *profile.Profile, o *report.Options) error {
	data, err := report.NewJSON(p, o)
	if err != nil {
		return err
	}
	return writeDocument(w, profileSchema, data)
}

const threads = profile.Comm | profile.PID | profile.TID

var reportFormats = []reportFormat{
	{name: "table", write: func(w io.Writer, p, base *profile.Profile, o *report.Options) error {
		if base != nil {
			return report.WriteDiff(w, []*profile.Profile{base, p}, nil, o, report.DefaultDiff())
		}
		return report.Text(w, p, o)
	}, diffs: true, rows: true},
	{name: "json", ending: ".json", write: alone(writeProfileJSON), rows: true},
	{name: "csv", ending: ".csv", write: alone(report.WriteCSV), rows: true},
	{name: "folded", ending: ".folded", one: true, keys: profile.Comm, write: alone(report.WriteFolded)},
	{name: "pprof", ending: ".pb.gz", keys: threads | profile.Line | profile.Address, write: alone(report.WritePprof), binary: true},
	{name: "flamegraph", ending: ".svg", one: true, keys: profile.Comm, write: report.WriteFlameGraph, diffs: true},
	{name: "html", ending: ".html", keys: profile.Comm, write: report.WriteHTML, diffs: true},
	{name: "speedscope", keys: threads | profile.Line | profile.Time, write: alone(report.WriteSpeedscope)},
	{name: "firefox", one: true, keys: threads | profile.Line | profile.Time, write: alone(report.WriteFirefox)},
}

func formatNames(formats []reportFormat) []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// endings returns the endings of files that choose a format.
func endings(formats []reportFormat) []string {
	var all []string
	for _, f := range formats {
		if f.ending != "" {
			all = append(all, f.ending)
		}
	}
	return all
}

func (f *reportFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.format, "format", "table", "write `FORMAT`: "+strings.Join(formatNames(reportFormats), ", "))
	perfHasNo(flags, "format")
	addJSON(flags, &f.json, profileSchema)
	flags.BoolVar(&f.stdio, "stdio", false, "print the table even on a terminal")
	flags.BoolVar(&f.tui, "tui", false, "show the table as a screen to walk through, if this is a terminal (default there)")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE`, in the format of its ending: "+strings.Join(endings(reportFormats), ", "))
	flags.StringVar(&f.base, "diff", "", "show what has changed since `FILE`: a recording, or the output of --format pprof")
	addHTTP(flags, &f.http)
	addCode(cmd, &f.source, &f.code, &f.codeText)
	flags.StringSliceVarP(&f.sort, "sort", "s", nil, "print a row for each value of `KEYS`, or with a plus sign also for each of more keys: "+strings.Join(report.Keys(), ", "))
	flags.StringSliceVarP(&f.fields, "fields", "F", nil, "show `COLUMNS`: keys, and "+strings.Join(report.Fields(), ", "))
	flags.StringVarP(&f.callGraph, "call-graph", "g", "graph,0.5", "show call trees as `STYLE`: graph, fractal, flat, folded or none, a limit in percent, "+
		"the most lines, caller or callee, percent, period or count")
	optionalWord(flags, "call-graph", "graph,0.5")
	flags.BoolVarP(&f.inverted, "inverted", "G", false, "begin call trees at the callers")
	flags.BoolVar(&f.children, "children", true, "include callees in the shares of functions, if the recording has callchains")
	flags.BoolVarP(&f.Hierarchy, "hierarchy", "H", false, "show a level of rows for each sort key, one below the other")
	flags.BoolVar(&f.Group, "group", false, "show all events side by side")
	flags.IntVar(&f.SortEvent, "group-sort-idx", 0, "order rows by event `NUMBER` of the group only, from 0")
	flags.StringVarP(&f.Event, "event", "e", "", "show only `EVENT` in formats with room for one")
	flags.Var((*percentFlag)(&f.Limit), "percent-limit", "leave out rows and branches below `PERCENT` percent")
	addRowFlags(flags, &f.Options, "c")
	flags.StringVar(&f.input.socket, "socket-filter", "", "only the CPUs on this `SOCKET`")
	flags.StringVar(&f.Part, "symbol-filter", "", "only functions with this `TEXT` in their names")
	flags.StringSliceVar(&f.Programs, "bpf-prog", nil, "only samples with one of these BPF `PROGRAMS`, by name or ID, on their stack")
	flags.BoolVarP(&f.Samples, "show-nr-samples", "n", false, "show the number of samples")
	flags.BoolVar(&f.Period, "show-total-period", false, "show the sum of the periods")
	flags.BoolVar(&f.Utilization, "show-cpu-utilization", false, "show the shares of kernel and user code")
	flags.BoolVar(&f.Utilization, "showcpuutilization", false, "as perf 6 names --show-cpu-utilization")
	flags.Lookup("showcpuutilization").Hidden = true
	flags.BoolVarP(&f.Resolved, "hide-unresolved", "U", false, "only samples in known functions")
	flags.IntSliceVarP(&f.Widths, "column-widths", "w", nil, "make columns as wide as these `WIDTHS`: 0 for as wide as needed")
	f.input.addMaxStack(flags)
	addSwitches(flags, &f.input.switches)
	flags.BoolVarP(&f.branchStack, "branch-stack", "b", false, "show the branches in branch stacks (default if the recording is of record -b)")
	flags.BoolVar(&f.Memory, "mem-mode", false, "show accesses to memory by their weights")
	flags.StringVarP(&f.parent, "parent", "p", "", "also sort by parent, the caller that the regular `EXPRESSION` matches")
	flags.BoolVarP(&f.excludeOther, "exclude-other", "x", false, "only samples with a caller that --parent matches")
	flags.StringVar(&f.ignoreCallees, "ignore-callees", "", "leave out what the functions called that the regular `EXPRESSION` matches")
	flags.Var((*quantumFlag)(&f.Quantum), "time-quantum", "the key time separates intervals of this `LENGTH`, in s, ms, us or ns")
	flags.BoolVar(&f.Nanoseconds, "ns", false, "show the key time in ns")
	flags.BoolVar(&f.header, "header", false, "also print the header of the recording")
	flags.BoolVar(&f.headerOnly, "header-only", false, "print only the header of the recording")
	addTopology(flags, &f.topology)
	flags.BoolVarP(&f.NoHeads, "quiet", "q", false, "print nothing but rows and errors")
	flags.BoolVar(&f.stats, "stats", false, "print the number of records of each type")
	flags.BoolVar(&f.tasks, "tasks", false, "print the threads of the recording as a tree")
	flags.BoolVar(&f.mmaps, "mmaps", false, "print the threads of the recording, each with its memory map")
	flags.BoolVarP(&f.threads, "threads", "T", false, "also print the counts of threads that ended, if the recording is of record -s")
	flags.BoolVar(&f.totalCycles, "total-cycles", false, "show the blocks of code between branches by their cycles, if the recording is of record -b")
	flags.BoolVar(&f.RawTrace, "raw-trace", false, "show the fields of tracepoints without their print formats")
	addFullPaths(flags, &f.FullPaths)
	addDump(flags, &f.dump)
	completeFlag(cmd, "format", formatNames(reportFormats))
}

// addRowFlags adds the flags that select rows, and the flags for their columns. The letter is that of --comms.
func addRowFlags(flags *pflag.FlagSet, o *report.Options, letter string) {
	flags.StringSliceVarP(&o.Comms, "comms", letter, nil, "only threads of these `NAMES`")
	flags.StringSliceVarP(&o.DSOs, "dsos", "d", nil, "only code in these `FILES`")
	flags.StringSliceVarP(&o.Symbols, "symbols", "S", nil, "only these `FUNCTIONS`")
	flags.Var((*relativeFlag)(&o.Relative), "percentage", "percentages of all samples (absolute) or of those that pass the filters (relative): `WHICH`")
	flags.StringVarP(&o.Separator, "field-separator", "t", "", "separate columns by `TEXT` and do not align them")
}

// relativeFlag is a flag for what percentages relate to. It is true for the samples that pass the filters.
type relativeFlag bool

func (r *relativeFlag) Set(text string) error {
	if text != "relative" && text != "absolute" {
		return errors.New("the values are relative and absolute")
	}
	*r = text == "relative"
	return nil
}

func (r *relativeFlag) String() string {
	if *r {
		return "relative"
	}
	return "absolute"
}

func (r *relativeFlag) Type() string { return "string" }

// quantumFlag is a flag for a length of time in ns; 0 for the default.
type quantumFlag int64

// Set implements pflag.Value. As in perf, a number without a unit is in ns.
func (q *quantumFlag) Set(text string) error {
	digits := strings.TrimRight(text, "smun")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, known := map[string]int64{"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[text[len(digits):]]
	if err != nil || !known || n <= 0 || n > math.MaxInt64/unit {
		return errors.New("a length is a whole number above 0 with s, ms, us or ns, as 10ms")
	}
	*q = quantumFlag(n * unit)
	return nil
}

func (q *quantumFlag) String() string {
	return time.Duration(cmp.Or(int64(*q), report.DefaultQuantum)).String()
}

func (q *quantumFlag) Type() string { return "string" }

// take takes the argument: a recording, or a part of the names of functions.
func (f *reportFlags) take(arg string) {
	if f.input.path == "" && (strings.HasSuffix(arg, ".data") || isRecording(arg)) {
		f.input.path = arg
	} else {
		f.Part = arg
	}
}

// maxColumnWidth is the maximum of --column-widths, in characters.
const maxColumnWidth = 1000

// options returns the report's options for a recording with or without callchains, of its samples or of their branches. Keys can be fields of
// the tracepoints of traced, unless that is nil.
func (f *reportFlags) options(cmd *cobra.Command, callchains, branches bool, traced *perfdata.Reader) (*report.Options, error) {
	o := f.Options
	o.Branches = branches
	if traced != nil {
		if err := o.ReadTracepoints(traced); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		}
	}
	if err := o.SetSort(f.sort, nil); err != nil {
		return nil, badOption(err)
	}
	o.SetFields(f.fields)
	if o.Blocks = f.totalCycles && branches; o.Blocks {
		o.Sort, o.Fields, o.More = nil, nil, nil
	}
	o.Children = callchains && f.children && !o.Branches && !o.Memory
	o.Slices = f.input.times
	graph, err := report.ParseCallGraph(f.callGraph)
	if err != nil {
		return nil, badOption(err)
	}
	o.CallGraph = graph
	if f.inverted {
		o.CallGraph.Order = report.CallerFirst
	}
	if cmd.Flags().Changed("percent-limit") {
		o.CallGraph.Limit = f.Limit
	}
	if !callchains || o.Branches {
		o.CallGraph.Mode = report.NoGraph
	}
	if f.parent != "" {
		if o.Parent, err = regexp.Compile(f.parent); err != nil {
			return nil, badOptionf("--parent: %w", err)
		}
	}
	if f.ignoreCallees != "" {
		if o.IgnoreCallees, err = regexp.Compile(f.ignoreCallees); err != nil {
			return nil, badOptionf("--ignore-callees: %w", err)
		}
	}
	if f.excludeOther {
		o.Caller = cmp.Or(o.Parent, report.DefaultParent())
	}
	for _, width := range o.Widths {
		if width < 0 || width > maxColumnWidth {
			return nil, badOptionf("--column-widths: %d is not from 0 to %d", width, maxColumnWidth)
		}
	}
	if err := o.CheckEarly(); err != nil {
		return nil, badOption(err)
	}
	return &o, nil
}

// chosen returns the format of --format or, without that, of files that end as the output does.
func (f *reportFlags) chosen(cmd *cobra.Command, formats []reportFormat) (reportFormat, error) {
	if f.json {
		f.format = "json"
	}
	i := slices.IndexFunc(formats, func(r reportFormat) bool { return r.name == f.format })
	if !f.json && !cmd.Flags().Changed("format") {
		if named := slices.IndexFunc(formats, func(r reportFormat) bool { return r.ending != "" && strings.HasSuffix(f.output, r.ending) }); named >= 0 {
			i = named
		}
	}
	if i < 0 {
		return reportFormat{}, badOptionf("--format %s: the formats are %s", f.format, strings.Join(formatNames(formats), ", "))
	}
	format := formats[i]
	if f.base != "" && !format.diffs {
		return format, badCombinationf("--diff supports the formats table, flamegraph and html, not %s", format.name)
	}
	if f.Hierarchy && (format.name != "table" || f.base != "") {
		return format, badCombinationf("--hierarchy is for the format table, without --diff")
	}
	if f.threads && (format.name != "table" || f.base != "") {
		return format, badCombinationf("--threads is for the format table, without --diff")
	}
	if f.totalCycles && (format.name != "table" || f.base != "") {
		return format, badCombinationf("--total-cycles is for the format table, without --diff")
	}
	if format.binary && toStdout(f.output) && onTerminal(cmd.OutOrStdout()) {
		return format, badCombinationf("--format %s is binary and cannot go to a terminal: name a file with -o", format.name)
	}
	return format, nil
}

func (f *reportFlags) run(cmd *cobra.Command) error {
	format, err := f.chosen(cmd, reportFormats)
	if err != nil {
		return err
	}
	if err := firstError(f.checkModes(format), f.checkHTTP(cmd.Flags().Changed), checkCode(f.source, &f.code)); err != nil {
		return err
	}
	conf, err := readConfig(func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }, false)
	if err != nil {
		return err
	}
	if err := f.configured(cmd, conf); err != nil {
		return err
	}
	if _, err := f.options(cmd, true, f.ofBranches(cmd, format, true), nil); err != nil { // fail before reading a long recording
		return err
	}
	if f.NoHeads {
		cmd.SetErr(io.Discard)
	}
	f.input.fetch(cmd.ErrOrStderr())
	if f.base != "" {
		printOnce(cmd)
	}
	recording, err := f.input.open(cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer recording.Close()
	switch {
	case f.headerOnly && !f.NoHeads: // as in perf, -q prints the rows
		return f.write(cmd, func(w io.Writer) error { return f.input.writeHeader(cmd, w, recording, f.topology) })
	case f.dump:
		return f.write(cmd, func(w io.Writer) error {
			if err := f.writeHeader(cmd, w, recording); err != nil {
				return err
			}
			return f.input.writeDump(cmd, w, recording)
		})
	case f.tasks || f.mmaps:
		return f.writeTasks(cmd, recording)
	case f.http != "":
		return f.browseRecording(cmd, recording)
	}
	return f.writeSamples(cmd, format, recording)
}

// writeSamples writes the samples of a recording in a format.
func (f *reportFlags) writeSamples(cmd *cobra.Command, format reportFormat, recording *perfdata.Reader) error {
	var traced *perfdata.Reader
	if format.rows && f.base == "" {
		traced = recording
	}
	options, err := f.options(cmd, hasCallchains(recording), f.ofBranches(cmd, format, madeOfBranches(recording)), traced)
	if err != nil {
		return err
	}
	keys, err := options.NeededKeys()
	if err != nil {
		return badOption(err)
	}
	f.input.noStacks = format.rows && !options.NeedsStacks()
	counts := newThreadCounts(recording.EventByID)
	if f.threads {
		f.input.records = counts.add
	}
	keys |= format.keys
	browses := f.browses(cmd, format)
	if browses {
		keys |= browseKeys
	}
	p, stats, err := f.profile(recording, options, keys)
	if err != nil {
		return err
	}
	printLosses(cmd.ErrOrStderr(), stats)
	printInterpreted(cmd.ErrOrStderr(), p)
	counts.note(cmd.ErrOrStderr())
	if f.stats {
		var counts []eventCount
		for i := range p.Events {
			counts = append(counts, eventCount{p.Events[i].Name, p.Events[i].Samples})
		}
		return f.write(cmd, func(w io.Writer) error { return printStats(w, stats, counts) })
	}
	base, err := f.readBase(cmd, options, keys|format.keys)
	if err != nil {
		return err
	}
	options.CutCallees(p)
	if browses {
		if shown, err := f.browse(cmd, p, options); shown || err != nil {
			return err
		}
	}
	return f.write(cmd, func(w io.Writer) error {
		if format.name == "table" && base == nil {
			if err := f.writeHeader(cmd, w, recording); err != nil {
				return err
			}
		}
		if err := format.write(w, p, base, options); err != nil || !f.threads {
			return err
		}
		return counts.print(w)
	})
}

// writeTasks writes the threads of a recording in place of its samples.
func (f *reportFlags) writeTasks(cmd *cobra.Command, recording *perfdata.Reader) error {
	o, err := f.input.options(recording)
	if err != nil {
		return err
	}
	r := replay.New(recording, o)
	defer r.Close()
	tasks, err := r.Tasks()
	if err != nil {
		return err
	}
	printLosses(cmd.ErrOrStderr(), r.Stats())
	return f.write(cmd, func(w io.Writer) error {
		printTasks(w, tasks, f.mmaps)
		return nil
	})
}

func (f *reportFlags) writeHeader(cmd *cobra.Command, w io.Writer, recording *perfdata.Reader) error {
	switch {
	case f.NoHeads:
		return nil
	case f.header:
		return f.input.writeHeader(cmd, w, recording, f.topology)
	}
	_, err := io.WriteString(w, "# To display the perf.data header info, please use --header/--header-only options.\n")
	return err
}

// write writes to the file of -o, or to standard output.
func (f *reportFlags) write(cmd *cobra.Command, write func(io.Writer) error) error {
	return writeOutput(cmd, f.output, write)
}

func hasCallchains(recording *perfdata.Reader) bool {
	return slices.ContainsFunc(recording.Events(), func(e *perfdata.Event) bool {
		return e.Attr.SampleType.Has(perfdata.SampleCallchain) || replay.IsOffCPUDump(e)
	})
}

// printStats prints perf's table with the number of records of each type.
func printStats(w io.Writer, stats replay.Stats, events []eventCount) error {
	var b strings.Builder
	var total uint64
	var types []perfdata.RecordType
	for t, n := range stats.Records {
		total += n
		types = append(types, t)
	}
	slices.Sort(types)
	fmt.Fprintf(&b, "\nAggregated stats:\n%20s events: %10d\n", "TOTAL", total)
	for _, t := range types {
		n := stats.Records[t]
		fmt.Fprintf(&b, "%20s events: %10d  (%4.1f%%)\n", t, n, 100*float64(n)/float64(total))
	}
	for _, e := range events {
		fmt.Fprintf(&b, "%s stats:\n%20s events: %10d\n", printable.Text(e.name), "SAMPLE", e.samples)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
