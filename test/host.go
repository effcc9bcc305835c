package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/test/binaries"
)

// hostJobs returns jobs that run the tests of packages on this machine's kernel, each job those tests of a package that take selects.
func hostJobs(b *binaries.Builder, patterns []string, race bool, take func(pkg, test string) bool) ([]job, error) {
	packages, err := binaries.List(runtime.GOARCH, patterns)
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, p := range packages {
		tests, err := p.Tests()
		if err != nil {
			return nil, err
		}
		tests = slices.DeleteFunc(tests, func(test string) bool { return !take(p.Path(), test) })
		if len(tests) == 0 {
			continue
		}
		jobs = append(jobs, job{
			where: where{kernel: host, race: race, pkg: p.Path()},
			name:  p.Path(),
			alone: true,
			run:   func(ctx context.Context, r *run) error { return runPackage(ctx, r, b, p, tests) },
		})
	}
	return jobs, nil
}

// runPackage compiles the tests of a package and runs some of them like `go test -v`.
func runPackage(ctx context.Context, r *run, b *binaries.Builder, p binaries.Package, names []string) error {
	compile := b.Tests
	if r.where.race {
		compile = b.RaceTests
	}
	var bperf, tests string
	err := r.phase("compile", func() (err error) {
		if bperf, err = b.Program(runtime.GOARCH, "./cmd/bperf"); err == nil {
			tests, err = compile(runtime.GOARCH, p.ImportPath)
		}
		return err
	})
	if err != nil {
		return err
	}
	cmd := exec.Command(tests, "-test.v", "-test.paniconexit0", "-test.run=^("+strings.Join(names, "|")+")$")
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+p.Dir, "BPERF="+bperf)
	start := time.Now()
	if r.where.race {
		err = executeWithRaces(ctx, r, cmd)
	} else {
		err = execute(ctx, r, cmd, testTimeout)
	}
	word := "ok  "
	if err != nil {
		word = "FAIL"
	}
	fmt.Fprintf(r, "%s\t%s\t%.3fs\t[%s]\n", word, p.ImportPath, time.Since(start).Seconds(), r.where)
	if s := cmd.ProcessState; s != nil {
		r.packages[len(r.packages)-1].cpu = s.UserTime() + s.SystemTime()
	}
	return err
}

// executeWithRaces runs tests with the race detector. The detector writes its reports to files, because a test does not notice a race in a
// process that it kills or whose exit status it ignores.
func executeWithRaces(ctx context.Context, w io.Writer, cmd *exec.Cmd) error {
	dir, err := os.MkdirTemp("", "bperf-race-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // some processes of the tests run as nobody
		return err
	}
	// Without atexit_sleep_ms each process sleeps for a second before it exits.
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=10 log_path="+filepath.Join(dir, "race"))
	err = execute(ctx, w, cmd, testTimeout)
	reports, globErr := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range reports {
		report, readErr := os.ReadFile(file)
		fmt.Fprintf(w, "%s", report)
		err = errors.Join(err, readErr)
	}
	if len(reports) > 0 {
		err = errors.Join(err, fmt.Errorf("data races in %d processes", len(reports)))
	}
	return errors.Join(err, globErr)
}

// pipeDelay is the longest time for which execute reads the output of a command after its end. Processes that the command left behind may
// hold the output open.
const pipeDelay = time.Minute

// execute runs a command and copies its output to w. After the timeout it kills the command and its process group.
func execute(ctx context.Context, w io.Writer, cmd *exec.Cmd, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ended after %v", timeout))
	defer cancel()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = pipeDelay
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err := cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
