package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/test/apt"
)

const (
	replaySamples = 500_000
	replayHertz   = 20_000 // few kernels allow more
)

// load is a shell command that keeps a CPU busy with many programs, files and deep stacks, until it is killed.
const load = `while :; do find /usr -type f -size -40k | head -4000 | xargs cat 2>/dev/null | sha1sum >/dev/null; ls -lR /usr/share >/dev/null; done`

// replay compares `script` and `report` on a recording of a busy machine, with about 500,000 samples with callchains. perf makes the recording.
func (b *bench) replay() error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "perf.data")
	if err := b.record(file); err != nil {
		return err
	}
	printHeader("perf")
	for _, args := range [][]string{{"script", "--no-inline", "-i", file}, {"script", "-i", file},
		{"report", "--stdio", "--no-inline", "--no-children", "-i", file}, {"report", "--stdio", "--no-inline", "-i", file}} {
		runs := b.runs
		if args[0] == "report" { // perf takes minutes
			runs = max(1, runs/5)
		}
		ours, theirs, err := alternate(runs, append([]string{b.bperf}, args...), append([]string{b.perf}, args...))
		if err != nil {
			return err
		}
		printCosts(strings.Join(args[:len(args)-2], " "), ours, theirs)
	}
	return nil
}

// record lets perf record a busy machine until it has about replaySamples samples.
func (b *bench) record(file string) error {
	seconds := replaySamples/(replayHertz*runtime.NumCPU()) + 2
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second+3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.perf, "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(replayHertz), "-m", "8M", "-o", file,
		"--", "timeout", strconv.Itoa(seconds), "sh", "-c", busy(runtime.NumCPU()+1))
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("%v: it did not end within three minutes of what it was to record", cmd.Args)
	}
	if info, statErr := os.Stat(file); statErr != nil || info.Size() < 1<<20 {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, output)
	}
	return nil // the status is timeout's
}

// busy returns a command that runs several loads at a time.
func busy(loads int) string {
	return fmt.Sprintf("for i in $(seq %d); do (%s) & done; wait", loads, load)
}
