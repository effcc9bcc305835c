package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

var (
	// "=== RUN   TestRead/empty"
	started = regexp.MustCompile(`^=== RUN\s+(\S+)`)
	// "    --- SKIP: TestRead/empty (0.00s)"
	result = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	// "    read_test.go:12: needs root"
	logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
	// "ok  	github.com/bperf/bperf/internal/event	0.1s", "FAIL	github.com/bperf/bperf/internal/event [build failed]",
	// and from guests "ok  	github.com/bperf/bperf/internal/event	0.1s	[arm64/trixie]"
	packageEnd = regexp.MustCompile(`^(ok  |FAIL)\t([^\t]+)(?:\t[0-9.]+s)?(?:\t(.*))?`)
)

// tally copies what is written to it, and keeps what it saw of the tests' results.
type tally struct {
	to   io.Writer
	rest []byte // of the output, the line that has not ended

	passed  int
	failed  []string // "package: test"
	skipped []string // "package: test: reason"

	lastLog string   // the line logged last: the reason, when the test turns out skipped
	running []string // of the package whose output is being read, as the rest
	fails   []string
	skips   []string
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
		t.running = append(t.running, m[1])
	}
	if m := result.FindStringSubmatch(line); m != nil {
		t.running = slices.DeleteFunc(t.running, func(test string) bool { return test == m[2] })
		switch m[1] {
		case "PASS":
			t.passed++
		case "FAIL":
			t.fails = append(t.fails, m[2])
		case "SKIP":
			t.skips = append(t.skips, m[2]+": "+t.lastLog)
		}
	}
	if m := packageEnd.FindStringSubmatch(line); m != nil {
		t.endPackage(m[1] == "FAIL", strings.TrimSpace(m[2]+" "+m[3]))
	}
}

// endPackage gives the results read so far to the package they belong to. A package can fail without a test that does:
// it did not compile, or it panicked.
func (t *tally) endPackage(failed bool, name string) {
	if failed && len(t.fails) == 0 {
		t.fails = []string{"(the package)"}
	}
	for _, f := range t.fails {
		t.failed = append(t.failed, name+": "+f)
	}
	for _, s := range t.skips {
		t.skipped = append(t.skipped, name+": "+s)
	}
	t.running, t.fails, t.skips = nil, nil, nil
}

func (t *tally) print(w io.Writer) {
	for _, test := range t.running {
		t.fails = append(t.fails, test+" had not ended")
	}
	if len(t.fails) > 0 || len(t.skips) > 0 {
		t.endPackage(len(t.fails) > 0, "(cut short)")
	}
	printList(w, "Skipped:", t.skipped)
	printList(w, "Failed:", t.failed)
	fmt.Fprintf(w, "\n%d passed, %d failed\n", t.passed, len(t.failed))
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
