package cli

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/script"
	"github.com/bperf/bperf/perfdata"
)

// scriptFlags are the flags of bperf script that do not map directly to an option.
type scriptFlags struct {
	recordingFlags
	fields     []string
	symbols    []string
	header     bool
	headerOnly bool
	comms      string
	unsorted   bool
	perEvent   bool
	topology   bool
}

func newScriptCommand() *cobra.Command {
	var f scriptFlags
	var o script.Options
	cmd := &cobra.Command{
		Use:   "script [flags]",
		Short: "Print the samples of a recording one by one, as perf script does",
		Long: `script prints each sample of a recording in the layout of perf script: the thread, the time, the event and the stack. Tools that
read that output, such as stackcollapse-perf.pl, speedscope and the Firefox profiler, also read this.

-F selects the fields to print, for all events or, after hw:, sw:, trace:, raw:, break: or synth:, for one kind of event.
A field with + or - in front is added to or removed from the default. The fields are
` + strings.Join(script.FieldNames(), ", ") + `.

With --json it prints one object per line, with everything that the recording has about a sample.` + debuginfodHelp,
		Example: `  bperf script
  bperf script -F comm,tid,time,ip,sym
  bperf script -F +srcline --no-inline
  bperf script --time 10.5,11 --comms nginx | stackcollapse-perf.pl
  bperf script --show-bpf-events --show-mmap-events
  bperf script --json | jq -r 'select(.ip.bpf_program) | .ip.symbol'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badOptionf("only perf has script %s: %s", args[0], noScripts)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, o) },
	}
	flags := cmd.Flags()
	f.recordingFlags.addInput(flags)
	f.recordingFlags.add(flags, "C")
	flags.StringArrayVarP(&f.fields, "fields", "F", nil, "print these `FIELDS`")
	flags.BoolVarP(&o.NoChains, "hide-call-graph", "G", false, "print the instruction pointer instead of the callchain")
	flags.BoolVar(&o.Nanos, "ns", false, "print times with nine digits of a second")
	flags.BoolVar(&o.Relative, "reltime", false, "print times since the first sample")
	flags.BoolVar(&o.Delta, "deltatime", false, "print times since the previous sample")
	addJSONFlag(flags, &o.JSON, "print a JSON object for each sample, in a line")
	flags.StringVar(&o.Type, "type", "", "print the output of BPF programs as the `STRUCTURE` of this name, member by member; its type comes from the BTF of the recording")
	flags.StringSliceVarP(&f.symbols, "symbols", "S", nil, "only samples in one of these `FUNCTIONS`, or at an address, as 0xffffffff81000000")
	flags.Uint64Var(&o.Range, "addr-range", 0, "with addresses in -S, the `N` bytes from there")
	flags.StringSliceVar(&o.DSOs, "dsos", nil, "only samples in one of these `FILES`")
	flags.StringSliceVar(&o.StopAt, "stop-bt", nil, "no callers of these `FUNCTIONS`")
	flags.BoolVar(&f.header, "header", false, "also print the header of the recording")
	flags.BoolVar(&f.headerOnly, "header-only", false, "print only the header of the recording")
	addDump(flags, &o.Dump)
	flags.BoolVar(&f.unsorted, "dump-unsorted-raw-trace", false, "as -D, in the order of the file")
	flags.BoolVar(&f.perEvent, "per-event-dump", false, "print the samples of each event to a file FILE.EVENT.dump")
	addTopology(flags, &f.topology)
	show := func(p *bool, name, what string) {
		flags.BoolVar(p, "show-"+name+"-events", false, "also print "+what)
	}
	show(&o.Records.Mmap, "mmap", "mappings")
	show(&o.Records.Task, "task", "the start and end of threads, and their new names")
	show(&o.Records.BPF, "bpf", "the loading and unloading of BPF programs and their code")
	show(&o.Records.Switch, "switch", "context switches")
	show(&o.Records.Namespace, "namespace", "namespaces")
	show(&o.Records.Cgroup, "cgroup", "cgroups")
	show(&o.Records.Lost, "lost", "lost records and samples")
	show(&o.Records.Round, "round", "the ends of rounds of reading the ring buffers")
	show(&o.Records.TextPoke, "text-poke", "changes of the kernel's code")
	flags.StringVarP(&f.comms, "comms", "c", "", "only threads with these `NAMES`")
	addFullPaths(flags, &o.FullPaths)
	f.addMaxStack(flags)
	addSwitches(flags, &f.switches)
	addPerfOptions(flags, samplesPerfOptions, callsPerfOptions, scriptPerfOptions)
	return cmd
}

func (f *scriptFlags) run(cmd *cobra.Command, o script.Options) error {
	if o.Relative && o.Delta {
		return badOptionf("--reltime and --deltatime cannot be combined")
	}
	o.Dump, o.Unsorted = o.Dump || f.unsorted, f.unsorted
	if o.Dump && o.JSON {
		return badOptionf("-D and --json cannot be combined: --json prints only samples")
	}
	if o.Dump && f.perEvent {
		return badOptionf("-D and --per-event-dump cannot be combined: -D prints all records in one place")
	}
	o.Fields = script.NewSelection()
	for _, text := range f.fields {
		if err := o.Fields.Parse(text); err != nil {
			return badOption(err)
		}
	}
	for _, note := range o.Fields.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	for _, s := range f.symbols {
		if !strings.HasPrefix(s, "0x") {
			o.Symbols = append(o.Symbols, s)
		} else if address, err := strconv.ParseUint(s[2:], 16, 64); err == nil {
			o.Addresses = append(o.Addresses, address)
		} else {
			return badOptionf("-S %s: this is no address", s)
		}
	}
	f.fetch(cmd.ErrOrStderr())
	reader, err := f.open(cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer reader.Close()
	options, err := f.options(reader)
	if err != nil {
		return err
	}
	if f.comms != "" {
		options.Filter.Comms = strings.Split(f.comms, ",")
	}
	o.Input, o.AttrText = f.path, report.AttrText(reader)
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	if f.header || f.headerOnly {
		if err := f.writeHeader(cmd, out, reader, f.topology); err != nil {
			return err
		}
	}
	if f.headerOnly {
		return out.Flush()
	}
	err = f.print(cmd, out, reader, o, options)
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// print prints the recording to out or, with --per-event-dump, its samples to files.
func (f *scriptFlags) print(cmd *cobra.Command, out *bufio.Writer, reader *perfdata.Reader, o script.Options, options replay.Options) (err error) {
	var files []*eventFile
	if f.perEvent {
		if f.path == "-" {
			return badCombinationf("--per-event-dump writes files beside the recording, which is standard input: name a recording with -i")
		}
		if files, o.PerEvent, err = createEventFiles(f.path, reader.Events()); err != nil {
			return err
		}
	}
	stats, err := script.Print(out, reader, o, options)
	if reported := reportEventFiles(out, files); err == nil {
		err = reported
	}
	printLosses(cmd.ErrOrStderr(), stats)
	return err
}
