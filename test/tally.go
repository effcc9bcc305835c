package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/require"
)

var (
	// "=== RUN   TestRead/empty"
	started = regexp.MustCompile(`^=== RUN\s+(\S+)`)
	// "    --- SKIP: TestRead/empty (0.00s)"
	result = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+s)\)`)
	// "    read_test.go:12: needs root"
	logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
	// "ok  	github.com/bperf/bperf/internal/event	0.1s", "FAIL	github.com/bperf/bperf/internal/event [build failed]",
	// and from guests "ok  	github.com/bperf/bperf/internal/event	0.1s	[arm64/trixie]"
	packageEnd = regexp.MustCompile(`^(ok  |FAIL)\t([^\t ]+)(?:\t([0-9.]+s))?(?:[\t ](.*))?`)
)

// tally copies the output of `go test -v` and collects the results of the tests.
type tally struct {
	to     io.Writer
	where  where
	now    func() time.Time
	rest   []byte // the incomplete last line of the output
	passed int

	failed   []failure
	skipped  []string // "package: test: reason"
	tests    []took   // without subtests
	packages []took

	// Of the package whose output is being read:
	lastLog string // the last logged line, which is the reason if the test is skipped
	running []begun
	fails   []string
	skips   []string
	times   []took
	since   time.Time // end of the previous package
}

// begun is a test that has not ended.
type begun struct {
	test string
	at   time.Time
}

// failure is a failed test. If test is empty, the whole package failed.
type failure struct{ pkg, test, note string }

// took is the time of a package's tests, of one test, or of a phase. cpu is 0 if it is unknown.
type took struct {
	where     string
	pkg, test string
	wall, cpu time.Duration
}

func newTally(to io.Writer, w where) *tally {
	return &tally{to: to, where: w, now: time.Now, since: time.Now()}
}

func (t *tally) Write(p []byte) (int, error) {
	if n, err := t.to.Write(p); err != nil {
		return n, err
	}
	t.rest = append(t.rest, p...)
	for {
		line, rest, ended := bytes.Cut(t.rest, []byte{'\n'})
		if !ended {
			return len(p), nil
		}
		t.add(strings.TrimRight(string(line), "\r"))
		t.rest = rest
	}
}

func (t *tally) add(line string) {
	if m := logged.FindStringSubmatch(line); m != nil {
		t.lastLog = m[1]
	}
	if m := started.FindStringSubmatch(line); m != nil {
		t.running = append(t.running, begun{m[1], t.now()})
	}
	if m := result.FindStringSubmatch(line); m != nil {
		t.endTest(m[1], m[2], m[3])
	}
	if m := packageEnd.FindStringSubmatch(line); m != nil {
		t.endPackage(m[1] == "FAIL", m[2], m[4])
	}
}

func (t *tally) endTest(how, test, printed string) {
	switch how {
	case "PASS":
		t.passed++
	case "FAIL":
		t.fails = append(t.fails, test)
	case "SKIP":
		if t.lastLog != require.HostRunsIt && t.lastLog != require.OtherGuestsRunIt {
			t.skips = append(t.skips, test+": "+t.lastLog)
		}
	}
	i := slices.IndexFunc(t.running, func(b begun) bool { return b.test == test })
	if i < 0 {
		return
	}
	if !strings.Contains(test, "/") {
		t.times = append(t.times, took{test: test, wall: t.wall(t.running[i].at, printed)})
	}
	t.running = slices.Delete(t.running, i, i+1)
}

// wall returns the time that a test took by this machine's clock. It does not use a guest's clock, which leaps when the guest is idle. On this
// machine it returns the printed time, which excludes the time in which the test waited for other parallel tests.
func (t *tally) wall(start time.Time, printed string) time.Duration {
	if d, err := time.ParseDuration(printed); err == nil && t.where.kernel == host {
		return d
	}
	return t.now().Sub(start)
}

// endPackage assigns the results read so far to their package. A package can fail without a failed test, if it does not compile or
// panics.
func (t *tally) endPackage(failed bool, pkg, note string) {
	pkg = strings.TrimPrefix(pkg, binaries.Module+"/")
	for _, b := range t.running {
		t.fails = append(t.fails, b.test)
	}
	if failed && len(t.fails) == 0 {
		t.fails = []string{""}
	}
	for _, f := range t.fails {
		t.failed = append(t.failed, failure{pkg, f, note})
	}
	for _, s := range t.skips {
		t.skipped = append(t.skipped, t.where.String()+" "+pkg+": "+s)
	}
	for _, tt := range t.times {
		tt.where, tt.pkg = t.where.String(), pkg
		t.tests = append(t.tests, tt)
	}
	t.packages = append(t.packages, took{where: t.where.String(), pkg: pkg, wall: t.now().Sub(t.since)})
	t.running, t.fails, t.skips, t.times, t.since = nil, nil, nil, nil, t.now()
}

// end must be called at the end of the output.
func (t *tally) end() {
	if len(t.running) > 0 {
		t.endPackage(true, t.where.pkg, "not ended")
	}
}

// leaves returns the failures without tests that failed only because a subtest failed.
func leaves(all []failure) []failure {
	return slices.DeleteFunc(slices.Clone(all), func(f failure) bool {
		return f.test != "" && slices.ContainsFunc(all, func(part failure) bool {
			return part.pkg == f.pkg && strings.HasPrefix(part.test, f.test+"/")
		})
	})
}

// printTallies prints the skipped tests, the failures with the commands that repeat them, and the numbers of passed and failed tests. It
// returns the number of failures.
func printTallies(w io.Writer, runs []*run) (failed int) {
	var skipped, failures []string
	passed := 0
	for _, t := range runs {
		passed += t.passed
		failed += len(t.failed)
		skipped = append(skipped, t.skipped...)
		for _, f := range leaves(t.failed) {
			s := f.describe(t.where)
			if f.note != notStarted {
				s += "\n        " + t.where.again(f.pkg, f.test)
			}
			failures = append(failures, s)
		}
	}
	printList(w, "Skipped:", skipped)
	printList(w, "Failed:", failures)
	fmt.Fprintf(w, "\n%d passed, %d failed\n", passed, failed)
	return failed
}

func (f failure) describe(w where) string {
	s := w.String() + " " + f.pkg
	if f.test == "" {
		s += ": the package"
	} else {
		s += ": " + f.test
	}
	if f.note != "" && !strings.Contains(f.note, w.kernel) {
		s += " (" + strings.Trim(f.note, "[]") + ")"
	}
	return s
}

func printList(w io.Writer, title string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+title)
	for _, s := range list {
		fmt.Fprintln(w, "    "+s)
	}
}
