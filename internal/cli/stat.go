package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/config"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/internal/target"
)

// statOptions are the flags of stat as they were given. It has many fields because each of perf's flags has one.
type statOptions struct {
	sessionOptions

	forEachCgroup string
	cpuType       string
	metrics       metric.Options
	topdown       bool
	topdownLevel  int
	transaction   bool
	bpfCounters   bool
	programs      string
	inPrograms    bool // -b is given
	sumPrograms   bool
	functions     string
	perFunction   bool
	histogram     bool
	follow        bool
	calibrate     bool
	bpfAttrMap    string

	interval, intervalCount int
	intervalClear           bool
	repeat                  int
	table, null, sync       bool
	pre, post               string

	noAggr, perCore, perCluster, perSocket, perDie, perNode, perThread, noMerge bool

	perCoreThreads bool

	perCache   string // as given
	cacheLevel int    // of perCache; 0 for the highest

	separator       string
	json            bool
	recording       string // not a flag: where stat record writes to; empty for no recording
	output          string
	appendOutput    bool
	logFD           int
	bigNum          bool
	metricOnly      bool
	compat          string      // as given
	likePerf        stat.Compat // of compat, or of the environment
	namedMetrics    []string    // of -M
	scale, hideZero bool
	summary         bool
	noCSVSummary    bool
	detailed        int
}

func newStatCommand() *cobra.Command {
	var o statOptions
	cmd := &cobra.Command{
		Use:   "stat [flags] [--] [COMMAND [ARG...]]",
		Short: "Count events for the system, CPUs, processes, threads, cgroups, BPF programs or a command",
		Long: `stat counts events while a command runs, or until interrupted, and prints the counts.

Without a target it counts the command and its children; without a command, the whole system.
The counts go to standard error, as the command's own output goes to standard output.`,
		Example: `  bperf stat -- make -j8
  bperf stat -a -I 1000
  bperf stat -e cycles,instructions -p 1234 sleep 10
  bperf stat -e 'syscalls:sys_enter_*' -a -x, sleep 1
  bperf stat -b name:'cil_*' -e cycles,instructions sleep 10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStat(&o, cmd.Flags().Changed, args)
		},
	}
	readsCommand(cmd)
	o.addFlags(cmd.Flags())
	addOn(cmd.Flags())
	cmd.AddCommand(newStatRecordCommand(), newStatReportCommand())
	return cmd
}

// addFlags adds the flags of a session.
func (o *statOptions) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.VarP(eventFlag{&o.events, argEvents}, "event", "e", "events to count, comma-separated; see bperf list")
	f.VarP(eventFlag{&o.events, argMetrics}, "metrics", "M", "compute the metrics of this `LIST`")
	addEventFiles(f, &o.eventFiles)
	f.BoolVar(&o.topdown, "topdown", false, "compute where the CPU's pipeline loses cycles: the metrics of the group TopdownL1, as columns")
	f.IntVar(&o.topdownLevel, "td-level", 1, "with --topdown, compute the metrics of the group TopdownL`N`")
	f.BoolVarP(&o.transaction, "transaction", "T", false, "compute metrics of hardware transactions")
	f.VarP(eventFlag{&o.events, argCgroups}, "cgroup", "G", "cgroups of the events before it: one for all, or one for each")
	f.Var(eventFlag{&o.events, argFilter}, "filter", "filter `EXPR` for the tracepoint before it")
	f.CountVarP(&o.detailed, "detailed", "d", "more events: caches, with -dd TLBs, with -ddd prefetches")

	o.targetOptions.add(f, "count")
	f.StringVar(&o.forEachCgroup, "for-each-cgroup", "", "count all events for each cgroup of this `LIST`, or each that matches a regular expression")
	f.StringVarP(&o.programs, "bpf-prog", "b", "", "count inside the BPF programs of this `LIST`: IDs, name:GLOB, type:NAME, … (see bperf prog)")
	f.StringVar(&o.functions, "bpf-func", "", "with -b, count separately each function of the programs whose name matches this `GLOB`")
	f.BoolVar(&o.perFunction, "per-func", false, "with -b, count each function of the programs separately")
	f.BoolVar(&o.follow, "follow", false, "with -b, also count matching programs that are loaded during the run, and release those that are unloaded")
	f.BoolVar(&o.calibrate, "calibrate", false, "with -b, measure what the probes themselves count, and subtract it from each run")
	f.BoolVar(&o.histogram, "histogram", false, "with -b, print a histogram of the counts of single runs")
	f.BoolVar(&o.sumPrograms, "sum", false, "with -b, print the sum over the programs")
	f.BoolVar(&o.bpfCounters, "bpf-counters", false, "use counters that all sessions share, as the modifier b does for one event")
	f.StringVar(&o.bpfAttrMap, "bpf-attr-map", "", "share counters with upstream perf, through the map pinned at `PATH`")
	f.StringVar(&o.cpuType, "cputype", "", "count events that name no PMU only on cores of this `TYPE`, such as core or atom")
	f.BoolVarP(&o.noInherit, "no-inherit", "i", false, "do not count children and new threads")
	f.BoolVar(&o.allUser, "all-user", false, "count only user mode")
	f.BoolVar(&o.allKernel, "all-kernel", false, "count only the kernel")

	addMilliseconds(f, &o.interval, "interval-print", "I", 0, "print the counts of each interval")
	f.IntVar(&o.intervalCount, "interval-count", 0, "end after `N` intervals")
	f.BoolVar(&o.intervalClear, "interval-clear", false, "clear the screen before each interval")
	f.BoolVar(&o.summary, "summary", false, "print the sum over all intervals at the end")
	f.BoolVar(&o.noCSVSummary, "no-csv-summary", false, `do not mark the summary's CSV lines with "summary"`)
	o.addSchedule(f, "counting")
	f.IntVarP(&o.repeat, "repeat", "r", 1, "run the command `N` times and print mean and standard error; 0 to repeat forever")
	f.BoolVar(&o.table, "table", false, "with -r, show each run's time")
	f.BoolVarP(&o.null, "null", "n", false, "count nothing: measure only the time")
	f.BoolVarP(&o.sync, "sync", "S", false, "call sync() before each run")
	f.StringVar(&o.pre, "pre", "", "shell `COMMAND` to run before each run, not counted")
	f.StringVar(&o.post, "post", "", "shell `COMMAND` to run after each run, not counted")

	o.addPlaces(f)
	f.BoolVar(&o.metrics.NoGroup, "metric-no-group", false, "count the events of a metric of -M one by one, not as a group")
	f.BoolVar(&o.metrics.NoThreshold, "metric-no-threshold", false, "do not count events that only the thresholds of metrics need")
	f.BoolVar(&o.metrics.NoMerge, "metric-no-merge", false, "count the events of each metric of -M separately, even if two metrics need the same")

	o.addOutput(f)
	f.BoolVar(&o.scale, "scale", true, "scale counts of multiplexed events: --no-scale prints them as they are")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print each event's raw reading: value, ns enabled, ns running; and how many sessions share it")
	perfHasNo(f, "filter", "follow", "histogram", "sum", "compat")
	addPerfOptions(f, statPerfOptions)
}

// addOutput adds the flags that say how and where the counts are printed.
func (o *statOptions) addOutput(f *pflag.FlagSet) {
	f.StringVarP(&o.separator, "field-separator", "x", "", "CSV output with this `SEPARATOR` (\\t for a tab)")
	f.BoolVarP(&o.json, "json-output", "j", false, "JSON output, an object per line")
	f.StringVarP(&o.output, "output", "o", "", "write the counts to `FILE`")
	f.BoolVar(&o.appendOutput, "append", false, "append to the file of -o")
	f.IntVar(&o.logFD, "log-fd", 0, "write the counts to descriptor `FD`")
	f.BoolVarP(&o.bigNum, "big-num", "B", true, "print thousands separators")
	f.BoolVar(&o.metricOnly, "metric-only", false, "print only metrics, a column each")
	f.StringVar(&o.compat, "compat", "", "print metrics as this `VERSION` of perf does: 6.1 or 7.3 (default $"+compatVariable+", or else 7.3)")
	f.BoolVar(&o.hideZero, "hide-zero-events", false, "leave out events that counted 0")
	f.BoolVar(&o.quiet, "quiet", false, "print nothing")
}

// addPlaces adds the flags that say which part of the target a line covers.
func (o *statOptions) addPlaces(f *pflag.FlagSet) {
	f.BoolVarP(&o.noAggr, "no-aggr", "A", false, "print a line per CPU")
	f.BoolVar(&o.perCore, "per-core", false, "print a line per core")
	f.BoolVar(&o.perCoreThreads, "percore-show-thread", false, "with -A, print the sum of an event with the term percore for each CPU of a core")
	f.BoolVar(&o.perCluster, "per-cluster", false, "print a line per cluster of cores")
	f.StringVar(&o.perCache, "per-cache", "", "print a line per cache of this `LEVEL`, such as L2, or of the highest")
	optional(f, "per-cache", highestCache)
	f.BoolVar(&o.perDie, "per-die", false, "print a line per die")
	f.BoolVar(&o.perSocket, "per-socket", false, "print a line per socket")
	f.BoolVar(&o.perNode, "per-node", false, "print a line per NUMA node")
	f.BoolVar(&o.perThread, "per-thread", false, "print a line per thread (with -p, -t or -a)")
	f.BoolVar(&o.noMerge, "no-merge", false, "keep the boxes of an uncore PMU apart")
}

// highestCache is the value of --per-cache without a level.
const highestCache = "highest"

// parseCacheLevel sets the level of --per-cache.
func (o *statOptions) parseCacheLevel(given bool) error {
	if !given || o.perCache == highestCache {
		return nil
	}
	number, is := strings.CutPrefix(strings.ToUpper(o.perCache), "L")
	level, err := strconv.Atoi(number)
	if !is || err != nil || level < 1 || level > target.MaxCacheLevel {
		return badOptionf("--per-cache=%s: give a level from L1 to L%d", o.perCache, target.MaxCacheLevel)
	}
	o.cacheLevel = level
	return nil
}

// runStat checks the options, measures, and ends as the command did.
func runStat(o *statOptions, given func(string) bool, args []string) error {
	if err := o.check(given, args); err != nil {
		return err
	}
	note := o.noter(given)
	cfg, err := o.config(args, note)
	if err != nil {
		return err
	}
	out, err := o.open(given)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	cfg.Signals = signals
	cfg.Notify = note
	if o.verbose {
		cfg.Verbose = o.verboseNote(note)
	}
	o.noteIgnored(note)
	if o.recording != "" {
		if cfg.Recording, err = o.recordCounts(cfg.Events.Events()); err != nil {
			return err
		}
	}
	if cfg.Control, err = o.openControl(note); err != nil {
		return err
	}
	result, err := stat.Run(*cfg, o.printer(cfg, out))
	if err := errors.Join(statError(err), out.Close()); err != nil {
		return err
	}
	return exitAs(result.Signal, result.Command, len(args) > 0)
}

// endSignals returns the signals that end a session with its results. SIGHUP is one of them unless nohup(1), or whatever started bperf,
// ignores it.
func endSignals() []os.Signal {
	end := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		end = append(end, syscall.SIGHUP)
	}
	return end
}

// exitAs ends bperf as the command ended. If a signal ended the session, bperf dies of that signal, so that a shell knows that it was
// interrupted.
func exitAs(ended os.Signal, status target.Status, command bool) error {
	if sig, ok := ended.(syscall.Signal); ok {
		signal.Reset(sig)
		runtime.LockOSThread() // this thread gets the signal before the call returns
		if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), sig); err != nil {
			return err
		}
		return &exitError{Status: 128 + int(sig)} // the signal was ignored when bperf started
	}
	if code := status.ExitCode(); command && code != 0 {
		return &exitError{Status: code}
	}
	return nil
}

// check returns an error for invalid options, before anything is opened.
func (o *statOptions) check(given func(string) bool, args []string) error {
	inPrograms := given("bpf-prog")
	o.inPrograms = inPrograms
	if o.topdown && !given("metric-only") {
		o.metricOnly = true // as in perf
	}
	taskTarget := o.ofTasks()
	perCPU := o.noAggr || o.perCore || o.perCluster || o.perCache != "" || o.perDie || o.perSocket || o.perNode
	cgroups := o.forEachCgroup != "" || o.has(argCgroups)
	bad := badCombinationIf
	return firstError(
		bad(inPrograms && (o.cpus != "" || taskTarget || cgroups || o.perThread),
			"-b counts in BPF programs on all CPUs, whichever task they run for: "+
				"it cannot be combined with -C, -p, -t, -G, --for-each-cgroup or --per-thread"),
		o.sessionOptions.check(given, args, cgroups),
		o.parseCacheLevel(given("per-cache")),
		o.checkOutput(given),
		bad(given("interval-print") && o.interval < 10, "-I %d: the interval must be at least 10 ms", o.interval),
		bad(given("interval-count") && o.interval == 0, "--interval-count needs intervals: -I TIME"),
		bad(given("interval-count") && o.intervalCount < 1, "--interval-count %d: the number of intervals must be at least 1", o.intervalCount),
		bad(o.intervalClear && o.interval == 0, "--interval-clear needs intervals: -I TIME"),
		bad(given("timeout") && o.interval > 0, "--timeout cannot be combined with -I: use --interval-count"),
		bad(o.repeat < 0, "-r %d: give a number of runs, or 0 to repeat forever", o.repeat),
		bad(o.repeat != 1 && len(args) == 0 && o.timeout == 0, "-r needs a command to repeat, or a --timeout"),
		bad(o.table && o.repeat == 1, "--table shows the time of each run of -r: add -r N"),
		bad(o.places() > 1, "-A, --per-core, --per-cluster, --per-cache, --per-die, --per-socket, --per-node and --per-thread: give only one"),
		bad(perCPU && !inPrograms && (!o.onCPUs(args) || taskTarget),
			"a line per CPU, core, cluster, cache, die, socket or node needs -a or -C: tasks move between CPUs"),
		bad(o.perThread && !taskTarget && !o.system, "--per-thread needs -p, -t or -a"),
		bad(o.perThread && (o.cpus != "" || cgroups), "--per-thread counts threads: it cannot be combined with -C, -G or --for-each-cgroup"),
		bad(o.forEachCgroup != "" && o.has(argCgroups), "-G and --for-each-cgroup cannot be combined"),
		bad(inPrograms && o.bpfAttrMap != "",
			"-b cannot be combined with --bpf-attr-map: sessions of upstream perf cannot share what is counted in BPF programs"),
		bad(inPrograms && o.null, "-n counts nothing: it cannot be combined with -b"),
		bad(o.perFunction && o.functions != "", "--per-func counts all functions, --bpf-func only some: give only one"),
		bad((o.perFunction || given("bpf-func")) && !inPrograms, "--per-func and --bpf-func apply to the BPF programs of -b: add -b"),
		bad(o.follow && !inPrograms, "--follow applies to the BPF programs of -b: add -b"),
		bad(o.calibrate && !inPrograms, "--calibrate applies to the BPF programs of -b: add -b"),
		bad(o.histogram && !inPrograms, "--histogram shows the counts of single runs of BPF programs: it needs -b"),
		bad(o.histogram && given("field-separator"), "--histogram cannot be printed as CSV: use -j"),
		bad(o.sumPrograms && !inPrograms, "--sum adds up the BPF programs of -b: add -b"),
		bad(o.null && (len(o.events) > 0 || o.topdown || o.transaction), "-n counts nothing: it cannot be combined with -e, -M, --topdown and -T"),
	)
}

// checkOutput returns an error for invalid flags of addOutput.
func (o *statOptions) checkOutput(given func(string) bool) error {
	if o.separator == `\t` {
		o.separator = "\t"
	}
	separator := stat.CheckSeparator(o.separator)
	bad := badCombinationIf
	return firstError(
		o.parseCompat(given("compat")),
		bad(given("field-separator") && o.json, "-x and -j select different output formats: give only one"),
		bad(given("field-separator") && separator != nil, "-x: %w", separator),
		bad(given("field-separator") && given("big-num") && o.bigNum, "-B makes no sense with -x: CSV has no thousands separators"),
		bad(o.output != "" && given("log-fd"), "-o and --log-fd both say where the output goes: give only one"),
		bad(given("log-fd") && o.logFD < 0, "--log-fd takes the number of an open descriptor, not %d", o.logFD),
		bad(o.appendOutput && o.output == "", "--append needs a file: -o FILE"),
	)
}

// places returns how many flags are given that say which part of the target a line covers.
func (o *statOptions) places() int {
	return howMany(o.noAggr, o.perCore, o.perCluster, o.perCache != "", o.perDie, o.perSocket, o.perNode, o.perThread)
}

func howMany(set ...bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

// config returns the session that the options describe.
func (o *statOptions) config(args []string, note func(string)) (*stat.Config, error) {
	conf, err := readConfig(note, o.verbose)
	if err != nil {
		return nil, err
	}
	cfg := &stat.Config{
		Spec:           o.spec(args),
		Shared:         o.sharedWhere(conf),
		Inherit:        !o.noInherit,
		AllUser:        o.allUser,
		AllKernel:      o.allKernel,
		Raw:            !o.scale,
		NoMerge:        o.noMerge,
		Aggregation:    o.aggregation(),
		CacheLevel:     o.cacheLevel,
		PerCoreThreads: o.perCoreThreads,
		Interval:       time.Duration(o.interval) * time.Millisecond,
		IntervalCount:  o.intervalCount,
		Repeat:         o.repeat,
		Sync:           o.sync,
		Pre:            o.pre,
		Post:           o.post,
		Summary:        o.summary,
	}
	if err := o.setTarget(cfg); err != nil {
		var exit *exitError
		if errors.As(err, &exit) {
			return nil, err
		}
		return nil, badOption(err)
	}
	return cfg, o.chooseEvents(cfg, conf, note)
}

// sharedWhere returns where sessions of bperf and upstream perf find shared counters.
func (o *statOptions) sharedWhere(conf *config.Config) shared.Where {
	w := shared.Where{Dir: shared.Dir, AttrMap: upstream.DefaultPath}
	always, _ := conf.Get(configAttrMap)
	if path := cmp.Or(o.bpfAttrMap, always.Value); path != "" {
		w.AttrMap, w.Lead = path, true
	}
	return w
}

// setTarget sets the target and its description.
func (o *statOptions) setTarget(cfg *stat.Config) (err error) {
	if o.inPrograms {
		cfg.Target.System = true
		cfg.SumPrograms, cfg.Calibrate = o.sumPrograms, o.calibrate
		return o.selectPrograms(cfg)
	}
	if cfg.Target, err = o.target(cfg.Command); err != nil {
		return err
	}
	cfg.Target.ThreadNames = o.perThread
	cfg.Target.Threads = o.perThread && cfg.Target.System
	cfg.Subject = o.subject(cfg.Command)
	if o.forEachCgroup != "" {
		cfg.Target.Cgroups, err = target.MatchCgroups(o.forEachCgroup)
	}
	return err
}

// subject returns perf's description of the target.
func (o *statOptions) subject(command []string) string {
	switch {
	case o.pids != "":
		return fmt.Sprintf("process id '%s'", o.pids)
	case o.tids != "":
		return fmt.Sprintf("thread id '%s'", o.tids)
	case o.cpus != "":
		return fmt.Sprintf("'CPU(s) %s'", o.cpus)
	case o.system || len(command) == 0:
		return "'system wide'"
	}
	return fmt.Sprintf("'%s'", strings.Join(command, " "))
}

func (o *statOptions) aggregation() stat.Aggregation {
	switch {
	case o.noAggr:
		return stat.AggregateNone
	case o.perCore:
		return stat.AggregateCore
	case o.perCluster:
		return stat.AggregateCluster
	case o.perCache != "":
		return stat.AggregateCache
	case o.perDie:
		return stat.AggregateDie
	case o.perSocket:
		return stat.AggregateSocket
	case o.perNode:
		return stat.AggregateNode
	case o.perThread:
		return stat.AggregateThread
	}
	return stat.AggregateGlobal
}
