package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record"
)

// recordOptions are the flags of record as they were given. It has many fields because each of perf's flags has one.
type recordOptions struct {
	sessionOptions

	set []string // assignments to variables of the programs of --prog
	// outputs has the names of the events through which maps write, by map: -e FILE.o/map:MAP.event=NAME/.
	outputs map[string]string
	maps    mapOptions

	perThread  bool
	frequency  string
	period     uint64
	strictFreq bool

	framePointers bool
	callGraph     string
	anyBranch     bool
	branchFilter  string

	intrRegs, userRegs string

	synth             string
	tail, mmapBuildID bool
	rotateAt          string // --switch-output-event
	timedName         bool
	realtime          int
	offCPUThreshold   uint64

	data, physData, weight, raw                   bool
	sampleCPU, timestamp, periodSet, identifier   bool
	transaction, dataPages, codePages             bool
	userChains, kernelChains, runTimes, dataMaps  bool
	dryRun                                        bool
	maxSize                                       string
	noSamples, taskCounts                         bool
	namespaces, allCgroups, switchEvents          bool
	noBPFEvent, noBuffering, overwrite, noBuildID bool
	clockID, pages, output, rotate                string
	offCPU                                        string
	maxFiles, compression                         int
}

func newRecordCommand() *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record [flags] [--] [COMMAND [ARG...]]",
		Short: "Sample events for the system, CPUs, processes, threads, cgroups or a command into perf.data",
		Long: `record samples events while a command runs, or until interrupted, and writes the samples to perf.data, which bperf and perf read.

Without a target it records the command and its children; without a command, the whole system.
BPF programs are recorded with their code, even if they are loaded and unloaded during the recording.`,
		Example: `  bperf record -g -- make -j8
  bperf record -F 999 -a -g sleep 10
  bperf record -e sched:sched_switch --filter 'prev_prio < 100' -a sleep 1
  bperf record -e cpu-clock --filter 'cpu == 1 && uid != 0' -a sleep 1
  bperf record -p 1234 --call-graph bpf --timeout 5000
  bperf record -a -o - sleep 1 | perf script -i -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRecord(&o, cmd.CommandPath(), cmd.Flags().Changed, args)
		},
	}
	f := cmd.Flags()
	readsCommand(cmd)
	f.SortFlags = false

	o.addEvents(f, defaultFrequency)
	f.Var(excludeFlag{&o.events}, "exclude-perf", "do not record samples of bperf itself of the tracepoint before it")
	optional(f, "exclude-perf", "true")
	f.BoolVar(&o.strictFreq, "strict-freq", false, "fail if the kernel does not allow the frequency of -F")

	o.targetOptions.add(f, "record")
	f.StringVarP(&o.user, "uid", "u", "", "record the current processes of this `USER`, with all threads and children")
	f.BoolVar(&o.perThread, "per-thread", false, "use a ring buffer for each thread, not for each CPU; do not record children")
	f.BoolVarP(&o.noInherit, "no-inherit", "i", false, "do not record children and new threads")
	f.BoolVar(&o.allUser, "all-user", false, "sample only user mode")
	f.BoolVar(&o.allKernel, "all-kernel", false, "sample only the kernel")

	f.BoolVarP(&o.framePointers, "g", "g", false, "record callchains, by frame pointers unless --call-graph says otherwise")
	f.StringVar(&o.callGraph, "call-graph", "", "record callchains by this `METHOD`: fp (frame pointers), bpf (unwound in the kernel by tables), dwarf[,BYTES] (stacks, to be unwound later) or lbr")
	f.BoolVar(&o.userChains, "user-callchains", false, "record only the part of callchains in user mode")
	f.BoolVar(&o.kernelChains, "kernel-callchains", false, "record only the part of callchains in the kernel")
	f.BoolVarP(&o.anyBranch, "branch-any", "b", false, "record branches")
	f.StringVarP(&o.branchFilter, "branch-filter", "j", "", "record branches of these `KINDS`: any, any_call, any_ret, ind_call, call, cond, ind_jmp, u, k, hv, save_type, …")
	f.BoolVarP(&o.data, "data", "d", false, "record addresses of data")
	f.BoolVar(&o.physData, "phys-data", false, "record physical addresses of data")
	f.BoolVar(&o.dataPages, "data-page-size", false, "record the size of the page of each address of data")
	f.BoolVar(&o.codePages, "code-page-size", false, "record the size of the page of each instruction pointer")
	f.BoolVar(&o.dataMaps, "data-mmap", false, "record mappings of data")
	f.BoolVar(&o.transaction, "transaction", false, "record what aborted hardware transactions")
	f.BoolVarP(&o.weight, "weight", "W", false, "record the weight of samples: the cost of the sampled access")
	f.BoolVarP(&o.raw, "raw-samples", "R", false, "record raw data of all events, not only of tracepoints")
	f.BoolVarP(&o.timestamp, "timestamp", "T", false, "record the time of samples, even with --per-thread")
	f.BoolVarP(&o.periodSet, "period", "P", false, "record the period of samples, even if it is always the same")
	o.addRegisters(f)
	f.BoolVar(&o.sampleCPU, "sample-cpu", false, "record the CPU of samples")
	f.BoolVar(&o.identifier, "sample-identifier", false, "record the ID of the event with each sample, even if there is only one event")
	f.BoolVar(&o.runTimes, "running-time", false, "record the times enabled and running of groups that are read with each sample (:S)")
	f.BoolVarP(&o.taskCounts, "stat", "s", false, "record the counts of each thread when it ends")
	f.BoolVarP(&o.noSamples, "no-samples", "n", false, "sample nothing: record only tasks and mappings")
	f.BoolVar(&o.namespaces, "namespaces", false, "record namespaces of processes")
	f.BoolVar(&o.allCgroups, "all-cgroups", false, "record the cgroup of each sample")
	f.BoolVar(&o.switchEvents, "switch-events", false, "record context switches")
	f.BoolVar(&o.noBPFEvent, "no-bpf-event", false, "record nothing about BPF programs")
	f.StringVar(&o.offCPU, "off-cpu", "", "record how long threads are blocked: each time of at least `TIME` (500ms, 1s) as a sample, the rest as sums by stack")
	optional(f, "off-cpu", "500ms")
	f.Uint64Var(&o.offCPUThreshold, "off-cpu-thresh", 500, "the TIME of --off-cpu, in `MS`")
	f.StringVarP(&o.clockID, "clockid", "k", "", "take timestamps from this `CLOCK`: monotonic, monotonic_raw, realtime, boottime, tai")

	f.StringVarP(&o.output, "output", "o", "", "write to `FILE` (default perf.data; - for standard output, as a pipe; also the default where that is a pipe)")
	f.StringVarP(&o.pages, "mmap-pages", "m", "", "`SIZE` of each ring buffer: a number of pages, or of bytes with B, K, M or G (default 512K)")
	f.IntVarP(&o.compression, "compression-level", "z", 0, "compress the records, at a `LEVEL` of 1 to 22")
	optional(f, "compression-level", "1")
	f.BoolVar(&o.overwrite, "overwrite", false, "keep only the newest records in the ring buffers, and write them at the end, or when the next file begins")
	o.addSwitch(f)
	o.addExisting(f)
	f.BoolVar(&o.dryRun, "dry-run", false, "check the flags, the events and the configuration, and record nothing")
	f.IntVarP(&o.realtime, "realtime", "r", 0, "read the ring buffers with this real-time `PRIORITY`, from 1 to 99 (SCHED_FIFO)")
	f.BoolVar(&o.noBuffering, "no-buffering", false, "write each sample at once")
	f.BoolVarP(&o.noBuildID, "no-buildid", "B", false, "do not record build IDs")
	o.addSchedule(f, "sampling")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but errors")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what bperf found and what it left out")
	addOn(f)
	addPerfOptions(f, recordPerfOptions)
	completeFlag(cmd, "call-graph", []string{"fp", "bpf", "dwarf", "lbr"})
	return cmd
}

// runRecord checks the options, records, and ends as the command did. Its messages begin with the name by which bperf was called.
func runRecord(o *recordOptions, name string, given func(string) bool, args []string) error {
	if err := o.check(given, args); err != nil {
		return err
	}
	cfg, err := o.config(given, args)
	if err != nil {
		return err
	}
	defer cfg.Programs.Close()
	note := o.noteTo(os.Stderr)
	cfg.Name, cfg.Notify = name, note
	if o.verbose {
		cfg.Verbose = note
	}
	conf, err := readConfig(note, o.verbose)
	if err != nil {
		return err
	}
	if v, _ := conf.Get(configBuildIDs); v.Value == "skip" {
		cfg.NoBuildIDs = true
	}
	o.noteIgnored(note)
	if o.timedName && cfg.Output == "-" {
		note("--timestamp-filename is ignored: the recording goes to a pipe")
	}
	defer listen(cfg, allowance.New(0))() // record reads no symbols
	signal.Ignore(syscall.SIGXFSZ)        // a file that may not grow makes write(2) fail instead
	if cfg.Control, err = o.openControl(note); err != nil || o.dryRun {
		return err
	}
	printer, err := o.maps.open(os.Stderr, o.quiet, cfg.Programs, nil)
	if err != nil {
		return err
	}
	result, err := record.Run(*cfg)
	err = recordError(err)
	if result.Files > 0 {
		summarize(result, cfg.Name, cfg.Compression > 0, cfg.Notify)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(printer.print(), printer.Close()); err != nil {
		return err
	}
	return exitAs(result.Signal, result.Command, len(args) > 0)
}

// listen makes signals end a recording until stop is called. The first signal also ends the allowance.
func listen(cfg *record.Config, a *allowance.Allowance) (stop func()) {
	caught, signals, over := make(chan os.Signal, 4), make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(caught, endSignals()...)
	cfg.Signals, cfg.Allowance = signals, a
	go func() {
		for {
			select {
			case s := <-caught:
				a.End()
				select {
				case signals <- s:
				default: // the session ignores further signals
				}
			case <-over:
				return
			}
		}
	}()
	return func() { signal.Stop(caught); close(over) }
}

// summarize prints perf's last two lines, and the number of lost records. The lines begin with the name of the command.
func summarize(r record.Result, name string, compressed bool, note func(string)) {
	const mib = 1 << 20
	note(fmt.Sprintf("[ %s: Woken up %d times to write data ]", name, r.Wakeups))
	line := fmt.Sprintf("[ %s: Captured and wrote %.3f MB %s", name, float64(r.Bytes)/mib, r.LastOutput)
	if compressed && r.Bytes > 0 {
		line += fmt.Sprintf(", compressed (original %.3f MB, ratio is %.3f)", float64(r.Original)/mib, float64(r.Original)/float64(r.Bytes))
	}
	if r.Samples > 0 {
		line += fmt.Sprintf(" (%d samples)", r.Samples)
	}
	note(line + " ]")
	if r.Lost > 0 {
		note(fmt.Sprintf("%d records were lost because the ring buffers were full: make them larger with -m, or sample less often", r.Lost))
	}
	if text := r.Chains.String(); text != "" {
		note(text)
	}
	if text := r.LeftOut.String(); text != "" {
		note("Unwind tables: " + text)
	}
}

// check returns an error for invalid options, before anything is opened.
func (o *recordOptions) check(given func(string) bool, args []string) error {
	bad := badCombinationIf
	return firstError(
		o.listRegisters(),
		o.sessionOptions.check(given, args, o.has(argCgroups)),
		bad(given("freq") && given("count"), "-F sets a frequency and -c a period: give only one"),
		bad(given("count") && o.period == 0, "-c 0: the period must be at least 1"),
		bad(o.strictFreq && !given("freq"), "--strict-freq applies to the frequency of -F: add -F"),
		bad(o.perThread && o.onCPUs(args) && !o.ofTasks(), "--per-thread is for threads: give -p, -t or a command, without -a and -C"),
		bad(o.anyBranch && o.branchFilter != "", "-b records all branches, -j only some: give only one"),
		bad(o.compression < 0 || o.compression > 22, "-z=%d: the compression level must be from 1 to 22", o.compression),
		bad(o.realtime < 0 || o.realtime > 99, "-r %d: the priority must be from 1 to 99", o.realtime),
		bad(given("off-cpu-thresh") && o.offCPU == "", "--off-cpu-thresh applies to --off-cpu: add --off-cpu"),
		bad(o.maxFiles < 0, "--switch-max-files %d: give a number of files, or 0 to keep all", o.maxFiles),
		bad(given("switch-max-files") && !o.switches(), "--switch-max-files limits the files of --switch-output: add --switch-output"),
		bad(o.userChains && o.kernelChains, "--user-callchains and --kernel-callchains: give only one"),
		bad(o.switches() && o.output == "-", "--switch-output writes several files: it cannot write to a pipe"),
		bad(o.quiet && o.verbose, "-q and -v contradict each other"),
	)
}

// config returns the session that the options describe.
func (o *recordOptions) config(given func(string) bool, args []string) (*record.Config, error) {
	cfg := &record.Config{Spec: o.spec(args),
		PerThread: o.perThread, Inherit: !o.noInherit && !o.perThread,
		Period: o.period, StrictRate: o.strictFreq, Overrides: given("freq") || given("count"),
		Addresses: o.data || o.physData, PhysAddrs: o.physData, Weight: o.weight, Raw: o.raw, SampleCPU: o.sampleCPU, Time: o.timestamp,
		Transaction: o.transaction, DataPages: o.dataPages, CodePages: o.codePages, Identifier: o.identifier, RunTimes: o.runTimes, DataMaps: o.dataMaps,
		NoUser: o.kernelChains, NoKernel: o.userChains,
		NoSamples: o.noSamples, TaskCounts: o.taskCounts, Namespaces: o.namespaces, Cgroups: o.allCgroups, Switches: o.switchEvents,
		NoBPF: o.noBPFEvent, AllUser: o.allUser, AllKernel: o.allKernel, NoBuffering: o.noBuffering,
		Overwrite: o.overwrite, Compression: o.compression, NoBuildIDs: o.noBuildID,
		Output: o.outputName(), CommandLine: slices.Clone(os.Args), Version: currentVersion(),
	}
	cfg.Realtime, cfg.TimedName = o.realtime, o.timedName
	if given("period") {
		cfg.PeriodSet = &o.periodSet
	}
	var err error
	cfg.Target, err = o.target(args)
	err = firstError(err,
		o.setOffCPU(cfg, given("off-cpu-thresh")), o.setExisting(cfg, given("synth")), o.setSwitchEvents(cfg, given("switch-output-event")), o.setFrequency(cfg),
		o.setCallchain(cfg), o.setBranches(cfg), o.setRegisters(cfg, given), o.setClock(cfg), o.setPages(cfg), o.setSwitch(cfg), o.setMaxSize(cfg))
	if err != nil {
		return nil, badOption(err)
	}
	return cfg, o.chooseEvents(cfg)
}

// setOffCPU parses a time with a unit or, as in perf, a number of milliseconds. separate says that --off-cpu-thresh has it.
func (o *recordOptions) setOffCPU(cfg *record.Config, separate bool) error {
	if o.offCPU == "" {
		return nil
	}
	threshold, err := time.ParseDuration(o.offCPU)
	if err != nil {
		threshold, err = time.ParseDuration(o.offCPU + "ms")
	}
	if err != nil || threshold < 0 {
		return fmt.Errorf("--off-cpu=%s: give a time, such as 500ms or 1s", o.offCPU)
	}
	if separate {
		if o.offCPUThreshold > math.MaxInt64/uint64(time.Millisecond) {
			return fmt.Errorf("--off-cpu-thresh %d: that is more than 292 years", o.offCPUThreshold)
		}
		threshold = time.Duration(o.offCPUThreshold) * time.Millisecond
	}
	cfg.OffCPU = &threshold
	return nil
}

// outputName returns the name of the output file. Without -o and --switch-output, that is standard output if it is a pipe, as in perf.
func (o *recordOptions) outputName() string {
	if o.output != "" {
		return o.output
	}
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 && !o.switches() {
		return "-"
	}
	return "perf.data"
}

// machine returns this machine with the events in event files.
func (o *recordOptions) machine() *event.Machine { return hostWith(o.eventFiles, o.noteTo(os.Stderr)) }

// chooseEvents sets the events with their programs, and with -G their cgroups.
func (o *recordOptions) chooseEvents(cfg *record.Config) error {
	err := o.takeObjects()
	if err == nil {
		cfg.Programs, err = o.readPrograms()
	}
	if err != nil {
		return badOption(err)
	}
	c := chosenEvents{machine: o.machine()}
	for _, a := range o.events {
		if a.kind == argProgram && !cfg.Programs.OnSamples(a.value) {
			continue // all its programs are attached elsewhere
		}
		if err := c.add(a); err != nil {
			return badOption(err)
		}
	}
	if len(o.outputs) > 0 && c.cgroups != nil {
		return badCombinationf("-G and map:MAP.event= cannot be combined: programs write their output for all cgroups")
	}
	if c.list, err = o.nameOutputs(cfg, c.list); err != nil {
		return badOption(err)
	}
	switch {
	case len(c.list) > 0:
	case cfg.Programs != nil && c.program == "":
		if err := o.withoutEvents(cfg); err != nil {
			return err
		}
	default:
		if err := c.parse("cycles:P"); err != nil {
			return err
		}
	}
	if c.program != "" {
		if err := c.runProgram(c.program); err != nil {
			return badOption(err)
		}
	}
	for _, e := range c.list.Events() {
		if e.Tool != event.ToolNone {
			return badOptionf("%s cannot be sampled: only bperf stat measures it", e.Name)
		}
		if e.BPF {
			return badOptionf("%s: the modifier b is for counting: samples cannot be shared", e.Name)
		}
	}
	cfg.Events = c.list
	if c.cgroups == nil {
		return nil
	}
	cfg.EventCgroups, cfg.Target.Cgroups, err = c.cgroupsOf()
	return err
}

// withoutEvents sets the target if no program runs on samples. The other programs always see the whole system.
func (o *recordOptions) withoutEvents(cfg *record.Config) error {
	if o.ofTasks() || o.cpus != "" {
		return badCombinationf("--prog: none of the programs runs at samples, and programs of other types " +
			"always see the whole system: leave out -p, -t, -u and -C, or give an event with -e")
	}
	cfg.Target.System = true
	return nil
}
