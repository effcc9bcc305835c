package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
)

// annotateFlags are the flags of bperf annotate.
type annotateFlags struct {
	recordingFlags
	output, format string
	percentType    string
	json           bool
	source         bool
	quiet          bool
	dump           bool
	options        annotate.Options
	text           annotate.TextOptions
}

func newAnnotateCommand() *cobra.Command {
	var a annotateFlags
	cmd := &cobra.Command{
		Use:   "annotate [flags] [SYMBOL]",
		Short: "Show the instructions and source lines at which samples were taken",
		Long: `annotate reads a recording and shows the functions with samples, the one with the most first: each instruction with its share of the
function's samples, and the source lines between the instructions.

The recording has the code of BPF programs, even of those that were unloaded since, so any machine can show it. bperf reads the code of
ELF files from the files, if their build is the recorded one; source lines come from debugging information in the file itself, below
/usr/lib/debug or in ~/.debug. bperf reads the code of the kernel and of trampolines from /proc/kcore, as root, if the running kernel
still has it at the same address.` + debuginfodHelp,
		Example: `  bperf annotate
  bperf annotate -l main
  bperf annotate -b on_switch --format html -o annotated.html`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if a.options.Symbol != "" {
					return badOptionf("the symbol is given twice, as an argument and with --symbol: give it only once")
				}
				a.options.Symbol = args[0]
			}
			return a.run(cmd)
		},
	}
	f := cmd.Flags()
	a.recordingFlags.addInput(f)
	a.recordingFlags.add(f, "C")
	f.StringVarP(&a.output, "output", "o", "", "write to `FILE`, not to standard output")
	f.StringVar(&a.format, "format", "text", "write the `FORMAT` text, json or html")
	perfHasNo(f, "format")
	addJSON(f, &a.json, annotateSchema)
	f.StringVarP(&a.options.Symbol, "symbol", "s", "", "only the function with this `NAME`")
	f.StringSliceVarP(&a.options.Modules, "dsos", "d", nil, "only functions of these `FILES`, modules or BPF functions")
	f.StringVarP(&a.options.Program, "bpf-prog", "b", "", "only functions of this BPF `PROGRAM`: an ID, name or tag")
	f.Var((*percentFlag)(&a.options.PercentLimit), "percent-limit", "leave out functions below `PERCENT` percent of all samples")
	addCode(cmd, &a.source, &a.options, &a.text)
	f.BoolVarP(&a.text.Lines, "print-line", "l", false, "print the lines with the most samples before each function")
	f.BoolVarP(&a.text.FullPath, "full-paths", "P", false, "show whole paths of source files")
	f.BoolVarP(&a.text.Samples, "show-nr-samples", "n", false, "show the number of samples instead of percentages")
	f.BoolVar(&a.text.Periods, "show-total-period", false, "show the sum of the periods instead of percentages")
	f.StringVar(&a.percentType, "percent-type", a.text.Shares.String(), "show percentages of local-period, local-hits, global-period or global-hits: `WHICH`")
	f.BoolVar(&a.options.SkipMissing, "skip-missing", false, "leave out functions whose code cannot be read")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing but functions and errors")
	addDump(f, &a.dump)
	addPerfOptions(f, samplesPerfOptions, screenPerfOptions, annotatePerfOptions)
	return cmd
}

// addCode adds the options for how code is shown, for which report has a key.
func addCode(cmd *cobra.Command, source *bool, o *annotate.Options, text *annotate.TextOptions) {
	f := cmd.Flags()
	f.BoolVar(source, "source", true, "show source lines: --no-source leaves them out")
	f.StringVar(&o.Prefix, "prefix", "", "look for source files below `DIR`")
	f.IntVar(&o.PrefixStrip, "prefix-strip", 0, "with --prefix, without the first `N` parts of their paths")
	f.BoolVar(&text.Bytes, "asm-raw", false, "show the bytes of instructions")
	addStyle(cmd, &o.Style)
}

// checkCode returns an error for invalid options of addCode, and sets NoSource.
func checkCode(source bool, o *annotate.Options) error {
	if o.PrefixStrip < 0 || o.PrefixStrip > 0 && o.Prefix == "" {
		return badOptionf("--prefix-strip is a number of parts of paths, and needs --prefix")
	}
	o.NoSource = !source
	return checkStyle(o.Style)
}

// addStyle adds the option for the syntax of machine instructions.
func addStyle(cmd *cobra.Command, style *string) {
	cmd.Flags().StringVarP(style, "disassembler-style", "M", "", "show x86 instructions in this `SYNTAX`: "+strings.Join(disasm.Styles, " or ")+" (default att)")
}

func checkStyle(style string) error {
	if style != "" && !slices.Contains(disasm.Styles, style) {
		return badOptionf("-M %s: the styles are %s", style, strings.Join(disasm.Styles, " and "))
	}
	return nil
}

func (a *annotateFlags) run(cmd *cobra.Command) error {
	write, err := a.writer()
	if err != nil {
		return badOption(err)
	}
	if a.text.Shares, err = annotate.ParseShares(a.percentType); err != nil {
		return badOptionf("--percent-type: %w", err)
	}
	if a.text.Samples && a.text.Periods {
		return badOptionf("--show-nr-samples and --show-total-period cannot be combined")
	}
	if err := checkCode(a.source, &a.options); err != nil {
		return err
	}
	if a.quiet {
		cmd.SetErr(io.Discard)
	}
	if a.dump {
		return a.writeRecords(cmd)
	}
	report, err := a.report(cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if len(report.Functions) == 0 {
		why := a.nothing(report)
		if a.options.Symbol == "" {
			return why
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", printable.Text(why.Error())) // as in perf, this is no failure
	}
	return writeOutput(cmd, a.output, func(w io.Writer) error { return write(report, w) })
}

// writer returns the function that writes the requested format.
func (a *annotateFlags) writer() (func(*annotate.Report, io.Writer) error, error) {
	if a.json {
		a.format = "json"
	}
	switch a.format {
	case "text":
		return func(r *annotate.Report, w io.Writer) error { return r.Text(w, a.text) }, nil
	case "json":
		return func(r *annotate.Report, w io.Writer) error { return writeDocument(w, annotateSchema, r) }, nil
	case "html":
		return (*annotate.Report).HTML, nil
	}
	return nil, fmt.Errorf("--format is text, json or html, not %q", a.format)
}

// writeRecords writes all records of the recording.
func (a *annotateFlags) writeRecords(cmd *cobra.Command) error {
	reader, err := a.open(cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer reader.Close()
	return writeOutput(cmd, a.output, func(w io.Writer) error { return a.writeDump(cmd, w, reader) })
}

// report annotates the recording. notes gets what is missing, and progress if it is a terminal.
func (a *annotateFlags) report(stdin io.Reader, notes io.Writer) (*annotate.Report, error) {
	a.fetch(notes)
	reader, err := a.open(stdin)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	options, err := a.recordingFlags.options(reader)
	if err != nil {
		return nil, err
	}
	options.NoInline = true
	a.options.Allowance, a.options.SymFS, a.options.BuildIDs, a.options.Mangled = options.Allowance, options.SymFS, options.BuildIDs, options.Mangled
	a.options.Debuginfod = options.Debuginfod
	r := replay.New(reader, options)
	defer r.Close()
	samples, err := annotate.Collect(r, reader, &a.options)
	if err != nil {
		return nil, err
	}
	printLosses(notes, r.Stats())
	return samples.Report(reader, &a.options)
}

// nothing returns an error that explains why the report has no functions.
func (a *annotateFlags) nothing(r *annotate.Report) error {
	total := uint64(0)
	for _, e := range r.Events {
		total += e.Samples
	}
	switch {
	case total == 0:
		return fmt.Errorf("%s has no samples with an instruction pointer", a.path)
	case r.Others > 0:
		return fmt.Errorf("no function in %s has %g %% of the samples or more: lower --percent-limit", a.path, a.options.PercentLimit)
	case a.options.Symbol+a.options.Program == "" && len(a.options.Modules) == 0:
		return fmt.Errorf("none of the %d samples of %s is in a known function", total, a.path)
	}
	return fmt.Errorf("none of the %d samples in %s is in the selected functions: bperf report lists the functions", total, a.path)
}
