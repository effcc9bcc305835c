package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/upstream/packaged"
)

// highHertz is a high frequency: few kernels allow more.
const highHertz = 20_000

// load is a shell command that keeps a CPU busy with many programs, files and deep stacks, until it is killed.
const load = `while :; do find /usr -type f -size -40k | head -4000 | xargs cat 2>/dev/null | sha1sum >/dev/null; ls -lR /usr/share >/dev/null; done`

// replayed is what perf records for -replay.
type replayed struct {
	name    string
	hertz   int
	seconds int
	command string // shell command, which ends after the seconds
	rows    []replayRow
}

// replayRow compares the commands with these arguments.
type replayRow struct {
	args string
	aim  float64 // ratio of wall times to perf 6.1's; 0 for none
}

// replays returns the recordings: of a quiet machine, of a build, whose programs have DWARF, and of a busy machine with about 500,000
// samples in few files.
func replays() []replayed {
	const busySamples = 500_000
	busySeconds := busySamples/(highHertz*runtime.NumCPU()) + 2
	return []replayed{
		{"quiet machine", 9999, 8, "sleep 8", []replayRow{
			{"script", 0.25}, {"script --no-inline", 0}, {"report --stdio --no-children", 0.4}, {"report --stdio --no-children --no-inline", 0},
		}},
		{"go build", 9999, 8, "d=$(mktemp -d); GOCACHE=$d timeout 8 go build -a -o /dev/null ./cmd/bperf; rm -rf $d", []replayRow{
			{"script", 0.4}, {"script --no-inline", 0.25},
			{"report --stdio", 0.2}, {"report --stdio --no-children", 0.5}, {"report --stdio --no-inline", 0.25},
		}},
		{"busy machine", highHertz, busySeconds, fmt.Sprintf("timeout %d sh -c '%s'", busySeconds, busy(runtime.NumCPU()+1)), []replayRow{
			{"script --no-inline", 0.25}, {"script", 0}, {"report --stdio --no-children --no-inline", 0.25}, {"report --stdio --no-inline", 0.33},
		}},
	}
}

// replay compares `script` and `report` on recordings, which perf makes: with the distribution's perf, and with the newest packaged one.
func (b *bench) replay() error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	newest, err := packaged.Get(packaged.Newest, runtime.GOARCH)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, r := range replays() {
		file := filepath.Join(dir, "perf.data")
		if err := b.record(&r, file); err != nil {
			return err
		}
		if err := describe(r.name, file); err != nil {
			return err
		}
		for _, peer := range []string{b.perf, newest} {
			printHeader("perf")
			for _, row := range r.rows {
				if err := b.compareReplays(row, file, peer, peer == newest); err != nil {
					return err
				}
			}
		}
		if err := b.compareReplayFloors(r.rows, file); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) compareReplays(row replayRow, file, peer string, isNewest bool) error {
	args := append(strings.Fields(row.args), "-i", file)
	runs := b.runs
	if args[0] == "report" && !slices.Contains(args, "--no-children") || isNewest { // perf takes minutes
		runs = max(1, runs/5)
	}
	ours, theirs, err := alternate(runs, append([]string{b.bperf}, args...), append([]string{peer}, args...))
	if err != nil {
		return err
	}
	if isNewest {
		printCosts(row.args, ours, theirs)
	} else {
		printCosts(row.args, ours, theirs, aim{wall, row.aim})
	}
	return nil
}

// compareReplayFloors compares the rows that have an aim with what reading the recording takes alone, and decompressing for inlined functions.
func (b *bench) compareReplayFloors(rows []replayRow, file string) error {
	printHeader("floor")
	for _, row := range rows {
		if row.aim == 0 {
			continue
		}
		args, floor := append(strings.Fields(row.args), "-i", file), []string{file}
		if !slices.Contains(args, "--no-inline") {
			floor = []string{"-inlined", file}
		}
		if err := b.compareFloor(row.args, b.runs, args, "replay", floor...); err != nil {
			return err
		}
	}
	return nil
}

// record lets perf record the machine while a command runs.
func (b *bench) record(r *replayed, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.seconds)*time.Second+3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.perf, "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(r.hertz), "-m", "8M", "-o", file,
		"--", "sh", "-c", r.command)
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

// describe prints the size of a recording.
func describe(name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	r, err := perfdata.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	samples, files := 0, make(map[string]bool)
	for record, err := range r.Records() {
		if err != nil {
			return err
		}
		switch v := record.Value.(type) {
		case *perfdata.Sample:
			samples++
		case *perfdata.Mmap2:
			files[v.Filename] = true
		}
	}
	fmt.Printf("%s: %d samples, %d mapped files, %.1f MB\n", name, samples, len(files), float64(info.Size())/1e6)
	return nil
}

// busy returns a command that runs several loads at a time.
func busy(loads int) string {
	return fmt.Sprintf("for i in $(seq %d); do (%s) & done; wait", loads, load)
}
