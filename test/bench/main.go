// Bench runs bperf and the distribution's perf with the same arguments, in turns. It prints the medians of their wall time, CPU time and
// peak memory, with the ratio. By default it measures `stat` from its start to its end, with hardly anything to count. With -record it
// measures `record` on an overloaded machine; with -replay, `script` and `report`; with -programs, `prog list` and `bpftool prog`; with
// -profile, `profile`, perf's `record` and `report`, and bcc's profile. With -lost it reports what happened to the samples of a long
// profile. With -top it measures `top` of functions. With -truth it compares profiles with the known shares of their loads. Of some rows it
// also prints the floor: the costs of a program below floor, which does only what the kernel or Go's runtime has to do for it.
//
//	go run ./test/bench [-record | -replay | -programs N [-bpftool FILE] | -profile [-long TIME] [-hertz RATES] | -lost TIME | -unwind TIME | -top TIME | -truth TIME | -serve TIME [-svg FILE]] [-bperf FILE] [-perf FILE] [-n RUNS]
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/split"
)

const (
	threads = 2000
	cgroups = 60
)

// tenEvents are software events, which every machine has.
const tenEvents = "task-clock,cpu-clock,context-switches,cpu-migrations,page-faults,minor-faults,major-faults," +
	"alignment-faults,emulation-faults,bpf-output"

func main() {
	split.Main()
	var b bench
	flag.StringVar(&b.bperf, "bperf", "./bperf", "`file` to measure")
	flag.StringVar(&b.perf, "perf", "perf", "`file` to compare with")
	flag.StringVar(&b.bpftool, "bpftool", "bpftool", "`file` to compare with when -programs lists BPF programs")
	flag.IntVar(&b.runs, "n", 50, "`runs` of each; the larger set-ups run a fifth of it")
	replay := flag.Bool("replay", false, "measure script and report with a recording of 500,000 samples, in place of stat")
	recordings := flag.Bool("record", false, "measure record on a machine that has too much to do, in place of stat")
	profiles := flag.Bool("profile", false, "measure profiling a load, beside perf record and report, and bcc's profile, in place of stat")
	long := flag.Duration("long", 10*time.Second, "CPU time of each thread of the load of -profile")
	rates := flag.String("hertz", "99,999,4999", "rates of -profile")
	lost := flag.Duration("lost", 0, "profile a load of 5,000 stacks for this `duration`, and print what happened to the samples, instead of the bench")
	programs := flag.Int("programs", 0, "measure listing so many BPF programs, which are loaded for it, in place of stat")
	daemon := flag.Duration("serve", 0, "measure bperf serve for this `duration`, in place of stat")
	svg := flag.String("svg", "", "draw what -serve measures to this `file`")
	unwind := flag.Duration("unwind", 0, "record user stacks without frame pointers for this `duration`, beside perf record --call-graph dwarf, in place of stat")
	live := flag.Duration("top", 0, "measure a live profile of functions for this `duration`, in place of stat")
	truth := flag.Duration("truth", 0, "profile programs with so much CPU `time`, whose shares are known, beside perf record, in place of stat")
	flag.Parse()
	if helper() {
		return
	}
	run := b.run
	switch {
	case *recordings:
		run = b.recordBoth
	case *replay:
		run = b.replay
	case *profiles:
		run = func() error { return b.profilesAt(*long, *rates) }
	case *lost > 0:
		run = func() error { return b.lost(*lost) }
	case *daemon > 0:
		run = func() error { return b.serve(*daemon, *svg) }
	case *unwind > 0:
		run = func() error { return b.unwind(*unwind) }
	case *live > 0:
		run = func() error { return b.top(*live) }
	case *truth > 0:
		run = func() error { return b.truth(*truth) }
	case *programs > 0:
		run = func() error { return b.programs(*programs) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) profilesAt(long time.Duration, list string) error {
	var rates []int
	for text := range strings.SplitSeq(list, ",") {
		hertz, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-hertz %s: %w", list, err)
		}
		rates = append(rates, hertz)
	}
	return b.profiles(long, rates)
}

type bench struct {
	bperf, perf, bpftool string
	runs                 int
}

func (b *bench) run() error {
	if b.runs < 5 {
		return fmt.Errorf("%d runs are too few for a median: give 5 or more", b.runs)
	}
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	printHeader("perf")

	start := []aim{{wall, 0.33}, {cpu, 0.33}}
	ofOne := []string{"-e", "cpu-clock", "true"}
	if err := b.compare("true", b.runs, start, ofOne...); err != nil {
		return err
	}
	if err := b.compare("true, default events", b.runs, nil, "true"); err != nil {
		return err
	}

	process, err := startHelper(threadsVariable, threads)
	if err != nil {
		return err
	}
	defer process.stop()
	pid := strconv.Itoa(process.pid())
	name := fmt.Sprintf("-p, %d threads", threads)
	many := []aim{{wall, 0.8}}
	ofThreads := []string{"-e", "task-clock", "-p", pid, "true"}
	if err := b.compare(name, b.runs/5, many, ofThreads...); err != nil {
		return err
	}

	groups, err := makeCgroups(cgroups)
	if err != nil {
		return err
	}
	defer groups.remove()
	nameOfGroups := fmt.Sprintf("-a, %d cgroups x 10 events", cgroups)
	ofGroups := []string{"-a", "-e", tenEvents, "--for-each-cgroup", strings.Join(groups.names, ","), "true"}
	if err := b.compare(nameOfGroups, b.runs/5, many, ofGroups...); err != nil {
		return err
	}
	printHeader("floor")
	if err := b.compareFloor("true", b.runs, stat(ofOne...), "imports", "true"); err != nil {
		return err
	}
	if err := b.compareFloor(name, b.runs/5, stat(ofThreads...), "events", "threads", pid); err != nil {
		return err
	}
	const shared = "the same, files shared by threads"
	if err := b.compareFloor(shared, b.runs/5, stat(ofThreads...), "events", "-shared", "threads", pid); err != nil {
		return err
	}
	if err := b.compareFloor(nameOfGroups, b.runs/5, stat(ofGroups...), "events", append([]string{"cgroups"}, groups.dirs()...)...); err != nil {
		return err
	}
	return b.compareFloor(shared, b.runs/5, stat(ofGroups...), "events", append([]string{"-shared", "cgroups"}, groups.dirs()...)...)
}

// stat returns the arguments of stat that the bench uses.
func stat(args ...string) []string { return append([]string{"stat", "-x,"}, args...) }

// compare prints the costs of `stat ARGS...` with bperf and with perf.
func (b *bench) compare(name string, runs int, aims []aim, args ...string) error {
	args = stat(args...)
	ours, theirs, err := alternate(runs, append([]string{b.bperf}, args...), append([]string{b.perf}, args...))
	if err != nil {
		return err
	}
	printCosts(name, ours, theirs, aims...)
	return nil
}

func printHeader(other string) {
	fmt.Printf("%-40s %-12s %10s %10s %7s\n", "", "median", "bperf", other, "ratio")
}

// aim is the largest ratio that a metric should have; 0 for none.
type aim struct {
	unit  string // of the metric
	ratio float64
}

// printCosts prints a row for each metric, with its aim.
func printCosts(name string, ours, theirs costs, aims ...aim) {
	for _, m := range metrics {
		a, p := m.median(ours), m.median(theirs)
		fmt.Printf("%-40s %-12s %10.2f %10.2f %6.2fx", name, m.unit, a, p, a/p)
		for _, aim := range aims {
			if aim.unit == m.unit {
				printAim(a/p, aim.ratio)
			}
		}
		fmt.Println()
		name = ""
	}
}

// printAim prints the aim for a ratio, and MISSED if the ratio is beyond it. It prints nothing for the aim 0.
func printAim(ratio, aim float64) {
	if aim == 0 {
		return
	}
	fmt.Printf(" (aim %.2f", aim)
	if ratio > aim {
		fmt.Print(" MISSED")
	}
	fmt.Print(")")
}
