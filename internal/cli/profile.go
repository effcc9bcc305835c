package cli

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/browse"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/internal/userprog"
)

// profileOptions are the flags of profile. The target is selected as in record, and the output as in report.
type profileOptions struct {
	recordOptions
	blockedOptions
	report   reportFlags
	by       []string
	labels   []string // labels of programs' maps, which are valid keys of --by
	noIdle   bool
	most     int
	entries  uint32
	ranges   []string
	programs string
	every    float64
	width    int // of the terminal that shows the profile; 0: not limited
	symbols  symbolFlags
}

// defaultProfileFrequency is the sampling frequency, in Hz. 999 avoids sampling in step with programs' timers.
const defaultProfileFrequency = 999

func newProfileCommand() *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile [flags] [--] [COMMAND [ARG...]]",
		Short: "Count samples in the kernel, by stack or by other keys, and show where the time goes",
		Long: `profile samples events while a command runs, or until interrupted, and shows where the samples were taken. The kernel counts the
samples, so that bperf reads only sums, and there is no file.

Without a target it profiles the command and its children; without a command, the whole system.` + debuginfodHelp,
		Example: `  bperf profile -a --timeout 10000
  bperf profile -F 99 -p 1234 --format html -o profile.html
  bperf profile --by comm,cpu -a sleep 5
  bperf profile -e page-faults -c 1 --format tree -- make
  bperf profile -a --timeout 10000 --http
  bperf profile --wall -p 1234 --format html -o profile.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	readsCommand(cmd)
	f.SortFlags = false

	o.addEvents(f, defaultProfileFrequency)

	o.targetOptions.add(f, "profile")
	f.BoolVarP(&o.noInherit, "no-inherit", "i", false, "do not profile children and new threads")
	f.StringVarP(&o.programs, "bpf-prog", "b", "", "profile only the BPF programs of this `LIST` and what they call: IDs, name:GLOB, type:NAME, … (see bperf prog)")
	f.StringArrayVar(&o.ranges, "range", nil, "only samples in this function, or between these `ADDRESSES`: 0x…-0x…; with several, samples in any of them")
	f.BoolVar(&o.allUser, "user", false, "sample only user mode")
	f.BoolVar(&o.allKernel, "kernel", false, "sample only the kernel")
	f.BoolVar(&o.noIdle, "no-idle", false, "leave out the idle tasks of CPUs")
	o.blockedOptions.add(f)
	f.IntVarP(&o.delay, "delay", "D", 0, "start sampling `MS` milliseconds after the start")
	o.addTimeout(f)

	f.StringSliceVar(&o.by, "by", []string{"comm", "stack"}, "count samples separately for each value of `KEYS`: "+strings.Join(sample.KeyNames(), ", "))
	f.StringVar(&o.report.format, "format", "table", "write `FORMAT`: "+strings.Join(formatNames(o.formats()), ", "))
	addJSON(f, &o.report.json, profileSchema)
	f.StringVarP(&o.report.output, "output", "o", "", "write to `FILE`, in the format of its ending, such as .html; with -I and the format pprof to a directory")
	addHTTP(f, &o.report.http)
	addSeconds(f, &o.every, "interval", "I", 0, "print a profile of each interval, with --format json as a line, with pprof as a file")
	f.StringVar(&o.report.base, "diff", "", "show what has changed since `FILE`: a recording, or the output of --format pprof")
	f.StringVar(&o.report.Event, "show", "", "show only `EVENT`, or the map of this name, in formats with room for one")
	f.IntVarP(&o.most, "top", "n", 30, "show at most `ROWS` rows in a table")
	f.BoolVar(&o.report.children, "children", false, "include callees in the shares of functions")
	f.StringVar(&o.report.callGraph, "call-graph", "graph,0.5", "show trees as `STYLE`: graph, fractal, flat or folded, a limit in percent, the most lines, caller or callee, "+
		"percent, period or count")
	f.Var((*percentFlag)(&o.report.Limit), "percent-limit", "leave out rows and branches below `PERCENT` percent")
	o.symbols.add(f)
	f.Uint32Var(&o.entries, "map-entries", 0, "initial `SIZE` of the kernel's maps, in stacks and sums; the maps grow when they fill")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but the profile and errors")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what bperf found and what it left out")
	addOn(f)
	return cmd
}

// formats returns the formats of report, with two changes: "table" shows the rows with the largest shares, and report's table is named
// "tree".
func (o *profileOptions) formats() []reportFormat {
	all := slices.Clone(reportFormats)
	tree := all[0]
	tree.name = "tree"
	all[0].write = func(w io.Writer, p, base *profile.Profile, r *report.Options) error {
		if base != nil {
			return report.WriteDiff(w, []*profile.Profile{base, p}, nil, r, report.DefaultDiff())
		}
		return report.WriteTop(w, p, r, o.most, o.width)
	}
	return slices.Insert(all, 1, tree)
}

func (o *profileOptions) run(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if !given("freq") && !given("count") {
		o.frequency = strconv.Itoa(defaultProfileFrequency)
	}
	format, err := o.report.chosen(cmd, o.formats())
	if err != nil {
		return err
	}
	if err := o.report.checkHTTP(given); err != nil {
		return err
	}
	if toStdout(o.report.output) {
		o.width = terminalWidth(cmd.OutOrStdout())
	}
	if o.report.http != "" {
		format.keys, format.one = browse.Keys, false
	}
	if err := o.prepareBlocked(given); err != nil {
		return badCombination(err)
	}
	if o.most < 1 {
		return badCombinationf("--top %d: the number of rows must be at least 1", o.most)
	}
	if err := o.check(given, args); err != nil {
		return err
	}
	recording, err := o.config(given, args)
	if err != nil {
		return err
	}
	defer recording.Programs.Close()
	maps := recording.Programs.Profiles()
	cfg, shown, err := o.sampling(cmd, recording, maps, format)
	if err != nil {
		return err
	}
	var base *profile.Profile
	if o.report.base != "" {
		o.report.input.symbolFlags = o.symbols
		if base, err = o.report.input.readFile(cmd, o.report.base, cfg.Keep); err != nil {
			return err
		}
	}
	if err := o.setInterval(cmd, given("interval"), cfg, format, shown); err != nil {
		return err
	}
	printer, err := o.maps.open(cmd.ErrOrStderr(), o.quiet, recording.Programs, maps)
	if err != nil {
		return err
	}
	if each := cfg.Each; each != nil {
		cfg.Each = func(p *profile.Profile) error { return errors.Join(each(p), printer.print()) }
	}
	result, err := o.take(cmd, cfg)
	if err != nil {
		return err
	}
	o.conclude(cmd.ErrOrStderr(), &result)
	if cfg.Each == nil {
		err = printer.print()
	}
	if err := errors.Join(err, printer.Close()); err != nil {
		return err
	}
	if result.Profile != nil {
		o.showMap(cmd.ErrOrStderr(), format, result.Profile, shown)
		if err := o.show(cmd, format, result.Profile, base, shown); err != nil {
			return err
		}
	}
	if result.Signal == syscall.SIGINT && len(args) == 0 { // the usual way to end a profile
		return nil
	}
	return exitAs(result.Signal, result.Command, len(args) > 0)
}

// show writes the profile, or serves it.
func (o *profileOptions) show(cmd *cobra.Command, format reportFormat, p, base *profile.Profile, shown *report.Options) error {
	if o.report.http != "" {
		return o.report.serve(cmd, browse.Config{Profile: p, Name: "bperf profile", Options: shown, Base: base, BaseName: o.report.base,
			NoCode: "Instructions are shown for recordings: use bperf record, then bperf report --http."})
	}
	return o.report.write(cmd, func(w io.Writer) error { return format.write(w, p, base, shown) })
}

// refuseTerms returns an error if events have terms that only recordings can follow.
func refuseTerms(list event.List, command string) error {
	for _, e := range list.Events() {
		terms := e.Sampling
		terms.Inherit = nil
		if terms != (event.Sampling{}) {
			return badOptionf("%s: %s counts samples in the kernel; only bperf record takes terms that select what a sample contains", e.Name, command)
		}
	}
	return nil
}

// sampling returns the session that samples what recording describes, and the options of its report.
func (o *profileOptions) sampling(cmd *cobra.Command, recording *record.Config, maps []*userprog.Profile, format reportFormat) (*sample.Config, *report.Options, error) {
	given := cmd.Flags().Changed
	if err := refuseTerms(recording.Events, "profile"); err != nil {
		return nil, nil, err
	}
	by, err := o.chooseKeys(given, maps)
	if err != nil {
		return nil, nil, badOptionf("--by: %w", err)
	}
	shown, err := o.shown(cmd, format.name, by)
	if err != nil {
		return nil, nil, err
	}
	keep, err := shown.NeededKeys()
	if err != nil {
		return nil, nil, err
	}
	notes := cmd.ErrOrStderr()
	if o.quiet {
		notes = io.Discard
	}
	o.symbols.fetch(notes)
	cfg := &sample.Config{Record: *recording, By: by, Keep: keep | format.keys, Entries: o.entries, Replay: o.symbols.options()}
	cfg.Record.NoIdle = o.noIdle
	o.setBlocked(given, cfg)
	cfg.Replay.Lines = cfg.Keep.Has(profile.Line)
	if err := o.narrow(cfg); err != nil {
		return nil, nil, err
	}
	if err := cfg.Check(); err != nil {
		return nil, nil, badCombination(err)
	}
	return cfg, shown, nil
}

// sortKeys maps keys of --by to sort keys of reports, where they differ.
var sortKeys = map[string][]string{
	"stack": {"dso", "symbol"}, "function": {"dso", "symbol"}, "ip": {"dso", "symoff"},
}

// chooseKeys returns the keys that samples are counted by. Without --by, the maps of programs choose them, if there are such maps.
func (o *profileOptions) chooseKeys(given func(string) bool, maps []*userprog.Profile) (sample.Keys, error) {
	if len(maps) > 0 && !given("by") {
		o.by = nil
	}
	for _, m := range maps {
		o.labels = append(o.labels, m.Labels...)
		for _, key := range m.Keys() {
			if !given("by") && !slices.Contains(o.by, key) {
				o.by = append(o.by, key)
			}
		}
	}
	isLabel := func(key string) bool { return slices.Contains(o.labels, key) }
	by, err := sample.ParseKeys(slices.DeleteFunc(slices.Clone(o.by), isLabel))
	if err != nil && len(o.labels) > 0 {
		err = fmt.Errorf("%w, and of maps %s", err, printable.Text(strings.Join(o.labels, ", ")))
	}
	return by, err
}

// showMap selects the map to show if the format has room for only one event, and the user has selected none.
func (o *profileOptions) showMap(w io.Writer, format reportFormat, p *profile.Profile, shown *report.Options) {
	var names []string
	for _, e := range p.Events {
		if e.Entries && e.Samples > 0 {
			names = append(names, e.Name)
		}
	}
	if !format.one || shown.Event != "" || len(names) == 0 {
		return
	}
	shown.Event = names[0]
	if len(names) > 1 && !o.quiet {
		fmt.Fprintf(w, "Of the maps %s, this format shows only one, %s: choose another with --show\n", strings.Join(names, ", "), names[0])
	}
}

// shown returns the options of the report for the keys of --by.
func (o *profileOptions) shown(cmd *cobra.Command, format string, by sample.Keys) (*report.Options, error) {
	for _, key := range o.by {
		keys, other := sortKeys[key]
		if !other {
			keys = []string{key}
		}
		for _, k := range keys {
			if !slices.Contains(o.report.sort, k) {
				o.report.sort = append(o.report.sort, k)
			}
		}
	}
	o.report.Labels, o.report.Counted = o.labels, true
	return o.report.options(cmd, by.Stack && (format != "table" || o.report.children), false, nil)
}

// take measures, and returns the result.
func (o *profileOptions) take(cmd *cobra.Command, cfg *sample.Config) (sample.Result, error) {
	stderr := cmd.ErrOrStderr()
	note := o.noteTo(stderr)
	o.noteIgnored(note)
	cfg.Record.Notify = note
	if o.verbose {
		cfg.Record.Verbose = note
	}
	if !o.quiet && onTerminal(stderr) {
		cfg.Progress = func(p sample.Progress) { fmt.Fprint(stderr, "\r", progressLine(p), "\x1b[K") }
		defer fmt.Fprint(stderr, "\r\x1b[K")
	}
	defer listen(&cfg.Record, cfg.Replay.Allowance)()
	ballast := make([]byte, 16<<20) // raises the heap size at which the garbage collector runs; untouched memory costs nothing
	result, err := sample.Run(*cfg)
	runtime.KeepAlive(ballast)
	return result, recordError(err)
}

func progressLine(p sample.Progress) string {
	return fmt.Sprintf("%.0f s: %d samples, %d lost, %d stacks, %d sums; bperf takes %.1f %% of a CPU", p.Elapsed.Seconds(), p.Samples, p.Lost, p.Stacks, p.Sums,
		100*p.CPU)
}

// conclude prints what the profile lacks, and the totals.
func (o *profileOptions) conclude(w io.Writer, r *sample.Result) {
	if !o.quiet {
		printLosses(w, r.Stats)
		if r.Profile != nil { // intervals have profiles of their own
			printInterpreted(w, r.Profile)
		}
		fmt.Fprintln(w, r.Totals)
	}
	if o.verbose {
		fmt.Fprintf(w, "%d bytes were read from the kernel\n", r.Totals.Read+r.Drained)
	}
}
