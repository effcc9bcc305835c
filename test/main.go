// Test runs the tests of bperf: on this machine's kernel, as root, and on other kernels in QEMU. It needs Go. As root it installs other
// missing programs by apt; otherwise it prints their names. The last line of its output is "N passed, N failed". Above it are the failures,
// each with the command that repeats it, and the skipped tests with their missing requirements.
//
//	go run ./test [-slowest N] [-timeout D] [-fuzztime D] [host|guests|race|fuzz]...
//
// Without arguments it runs the steps host and guests. The step host runs all tests of all packages, but together with the step race only
// those that the race detector does not run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/upstream/packaged"
)

func main() {
	timeout := flag.Duration("timeout", 75*time.Minute, "ends all, and with it tests that hang")
	slowest := flag.Int("slowest", 0, "print the time of each phase and package, and of the `N` slowest tests")
	fuzztime := flag.Duration("fuzztime", 2*time.Second, "for each decoder in the step fuzz")
	flag.Parse()
	steps := flag.Args()
	if len(steps) == 0 {
		steps = []string{"host", "guests"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("not ended after %v", *timeout))
	defer cancel()
	start := time.Now()
	runs, err := test(ctx, steps, *fuzztime)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
	if *slowest > 0 {
		printTimes(os.Stdout, runs, *slowest, time.Since(start))
	}
	if printTallies(os.Stdout, runs) > 0 {
		os.Exit(1)
	}
}

// test runs the steps.
func test(ctx context.Context, steps []string, fuzztime time.Duration) ([]*run, error) {
	if err := apt.Need(needed); err != nil {
		return nil, err
	}
	for _, suite := range []string{packaged.Oldest, packaged.Newest} {
		if _, err := packaged.Get(suite, runtime.GOARCH); err != nil {
			fmt.Fprintln(os.Stderr, "test:", err) // the tests that need it report it, too, and fail if CI is set
		}
	}
	if _, err := engines.Get(engines.Promtool); err != nil {
		fmt.Fprintln(os.Stderr, "test:", err) // as above
	}
	b, err := binaries.New()
	if err != nil {
		return nil, err
	}
	defer b.Remove()
	p := pool{at: runtime.NumCPU()}
	for _, step := range steps {
		jobs, err := jobsOf(step, slices.Contains(steps, "race"), b, fuzztime)
		if err != nil {
			return nil, err
		}
		p.jobs = append(p.jobs, jobs...)
	}
	return p.runAll(ctx, os.Stdout), nil
}

// jobsOf returns the jobs of a step. With race, the step race runs as well, and the step host leaves out the tests that the step race runs.
func jobsOf(step string, race bool, b *binaries.Builder, fuzztime time.Duration) ([]job, error) {
	switch step {
	case "host":
		return hostJobs(b, []string{"./..."}, false, func(pkg, test string) bool { return !race || !underRace(pkg, test) })
	case "guests":
		return guestJobs(b), nil
	case "race":
		return hostJobs(b, racePackages, true, underRace)
	case "fuzz":
		return fuzzJobs(fuzztime), nil
	}
	return nil, fmt.Errorf("no step %q: there are host, guests, race and fuzz", step)
}
