package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// grace is the time that a target gets beyond its own, on a busy machine: to try its initial inputs, and to finish its last one.
const grace = 10 * time.Minute

// results are the results of a decoder's targets, in order.
type results struct {
	pkg     string
	took    time.Duration
	targets []result
}

type result struct {
	target string
	took   time.Duration
	said   string // output of the target
	err    error
}

func (d decoder) fuzz(ctx context.Context, each time.Duration) results {
	all := results{pkg: d.importPath}
	start := time.Now()
	for _, target := range d.targets {
		begin := time.Now()
		said, err := d.fuzzTarget(ctx, target, each/time.Duration(len(d.targets)))
		all.targets = append(all.targets, result{target, time.Since(begin), said, err})
	}
	all.took = time.Since(start)
	return all
}

// fuzzTarget returns the output of a target and, if it found one, the input that fails.
func (d decoder) fuzzTarget(ctx context.Context, target string, how time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, how+grace, fmt.Errorf("not ended after %v", how+grace))
	defer cancel()
	cmd := exec.CommandContext(ctx, d.file, "-test.run=^$", "-test.v", "-test.paniconexit0", "-test.parallel=1", "-test.fuzz=^"+target+"$",
		"-test.fuzztime="+how.String(), "-test.fuzzminimizetime=10x", "-test.fuzzcachedir="+d.cache)
	cmd.Dir = d.dir
	// The target's worker is a separate process, which may hang at an input.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	said := string(out)
	if onlyTimeWasOver(said) {
		err = nil
	}
	if m := written.FindStringSubmatch(said); m != nil {
		input, readErr := os.ReadFile(filepath.Join(d.dir, m[1]))
		if readErr != nil {
			input = []byte(readErr.Error())
		}
		said += string(bytes.TrimSpace(input)) + "\n"
	}
	return said, err
}

// written matches the line that a target prints when it finds an input that fails.
var written = regexp.MustCompile(`Failing input written to (\S+)`)

// deadline matches the failure of a target whose time ended at an unlucky moment.
var deadline = regexp.MustCompile(`--- FAIL: \S+ \(\S+\)\n\s+context deadline exceeded\n`)

// onlyTimeWasOver reports whether a target failed only because of https://go.dev/issue/75804, in which the end of -fuzztime is treated as a
// failure. Go 1.27 fixes it.
func onlyTimeWasOver(said string) bool {
	return deadline.MatchString(said) && !written.MatchString(said)
}

func (r results) failed() bool {
	for _, t := range r.targets {
		if t.err != nil {
			return true
		}
	}
	return false
}

// text returns the results in the format of go test -v. Only failed targets have their whole output.
func (r results) text() string {
	var b strings.Builder
	for _, t := range r.targets {
		word := "PASS"
		if t.err != nil {
			word = "FAIL"
		}
		fmt.Fprintf(&b, "=== RUN   %s\n", t.target)
		if t.err != nil {
			// Indented, so that no reader treats the target's results as results of other tests.
			fmt.Fprintf(&b, "    | %s\n    %v\n", strings.ReplaceAll(strings.TrimSpace(t.said), "\n", "\n    | "), t.err)
		} else if p := progress.FindAllString(t.said, -1); p != nil {
			fmt.Fprintf(&b, "    %s\n", p[len(p)-1])
		}
		fmt.Fprintf(&b, "--- %s: %s (%.2fs)\n", word, t.target, t.took.Seconds())
	}
	word := "ok  "
	if r.failed() {
		word = "FAIL"
	}
	fmt.Fprintf(&b, "%s\t%s\t%.3fs\t[fuzzing]\n", word, r.pkg, r.took.Seconds())
	return b.String()
}

// progress matches the line that a target prints from time to time, and at its end.
var progress = regexp.MustCompile(`fuzz: elapsed: .*`)
