package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bperf/bperf/internal/perfdata"
)

// recordSeconds is how long each recording of recordBoth takes.
const recordSeconds = 8

// recordBoth has both programs record the same busy machine at the same time, so that what happens there is the same for both, and compares
// what that takes of the CPUs and what they write.
func (b *bench) recordBoth(dir string) error {
	fmt.Printf("%-34s %-12s %10s %10s %7s\n", "", "median", "bperf", "perf", "ratio")
	for _, hertz := range []int{999, replayHertz} {
		var ours, theirs []recording
		for i := range b.runs {
			both, err := b.recordOnce(dir, hertz, i%2 == 1)
			if err != nil {
				return err
			}
			ours, theirs = append(ours, both[0]), append(theirs, both[1])
		}
		name := fmt.Sprintf("record -a -g -F %d, %d s", hertz, recordSeconds)
		for _, m := range recordingMetrics {
			a, p := m.median(ours), m.median(theirs)
			ratio := ""
			if p > 0 {
				ratio = fmt.Sprintf("%6.2fx", a/p)
			}
			fmt.Printf("%-34s %-12s %10.2f %10.2f %7s\n", name, m.unit, a, p, ratio)
			name = ""
		}
	}
	fmt.Println()
	return nil
}

// recording is what one took and has.
type recording struct {
	cpu           time.Duration
	size          int64 // bytes
	samples, lost uint64
}

var recordingMetrics = []metric[recording]{
	{"CPU ms", func(r recording) float64 { return r.cpu.Seconds() * 1e3 }},
	{"file KiB", func(r recording) float64 { return float64(r.size) / 1024 }},
	{"samples", func(r recording) float64 { return float64(r.samples) }},
	{"bytes/sample", func(r recording) float64 { return float64(r.size) / float64(r.samples) }},
	{"lost", func(r recording) float64 { return float64(r.lost) }},
}

// recordOnce makes a recording with each of the two. They are started in one order or the other, and the machine becomes busy when both have had
// a second for what is there already.
func (b *bench) recordOnce(dir string, hertz int, swap bool) (both [2]recording, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), (recordSeconds+60)*time.Second)
	defer cancel()
	order := []int{0, 1}
	if swap {
		order = []int{1, 0}
	}
	var commands [2]*exec.Cmd
	var stderr [2]bytes.Buffer
	file := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)+".data") }
	for _, i := range order {
		program := [2]string{b.bperf, b.perf}[i]
		commands[i] = exec.CommandContext(ctx, program, "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(hertz), "-o", file(i),
			"--", "sleep", strconv.Itoa(recordSeconds))
		commands[i].Stderr, commands[i].WaitDelay = &stderr[i], 10*time.Second
		if err := commands[i].Start(); err != nil {
			return both, err
		}
	}
	work := exec.CommandContext(ctx, "timeout", strconv.Itoa(recordSeconds-2), "sh", "-c", "sleep 1; "+busy())
	_ = work.Run() // the status is that of timeout
	for i, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			return both, fmt.Errorf("%v: %w\n%s", cmd.Args, err, &stderr[i])
		}
		if both[i], err = tally(file(i)); err != nil {
			return both, err
		}
		both[i].cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if err := os.Remove(file(i)); err != nil {
			return both, err
		}
	}
	return both, nil
}

// tally counts what a file has.
func tally(file string) (r recording, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return r, err
	}
	r.size = info.Size()
	data, err := perfdata.Open(file)
	if err != nil {
		return r, err
	}
	defer data.Close()
	var lostSamples uint64 // which newer kernels count for each event, besides records of any sort
	for rec, err := range data.Records() {
		if err != nil {
			return r, err
		}
		switch v := rec.Value.(type) {
		case *perfdata.Sample:
			r.samples++
		case *perfdata.Lost:
			r.lost += v.Records
		case *perfdata.LostSamples:
			lostSamples += v.Samples
		}
	}
	r.lost = max(r.lost, lostSamples)
	return r, nil
}
