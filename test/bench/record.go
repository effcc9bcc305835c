package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/apt"
)

// recordSeconds is the length of each recording of recordBoth in seconds.
const recordSeconds = 8

// recordBoth lets both programs record the same busy machine at the same time, so that both see the same load. It compares their CPU time, the
// sizes of their files, and their lost samples.
func (b *bench) recordBoth() error {
	if err := apt.Need(map[string]string{b.perf: "linux-perf"}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%-34s %-12s %10s %10s %7s\n", "", "median", "bperf", "perf", "ratio")
	for _, hertz := range []int{999, highHertz} {
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
		fmt.Printf("%-34s %-12s %10d %10d\n", "", "lost in all", lostIn(ours), lostIn(theirs))
	}
	fmt.Println()
	return nil
}

// recording is the cost and the content of a recording.
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
}

// lostIn returns the sum of lost records. A median would hide losses in a few of the runs.
func lostIn(all []recording) (sum uint64) {
	for _, r := range all {
		sum += r.lost
	}
	return sum
}

// recordOnce makes a recording with each program; swap reverses the order of starting. The load begins after both have begun to record. On a
// busy machine perf takes seconds to begin, and would lose nothing until then.
func (b *bench) recordOnce(dir string, hertz int, swap bool) (both [2]recording, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), (recordSeconds+60)*time.Second)
	defer cancel()
	order := []int{0, 1}
	if swap {
		order = []int{1, 0}
	}
	var commands [2]*exec.Cmd
	var begun [2]io.Reader
	var stderr [2]bytes.Buffer
	file := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)+".data") }
	for _, i := range order {
		program := [2]string{b.bperf, b.perf}[i]
		commands[i] = exec.CommandContext(ctx, program, "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(hertz), "-o", file(i),
			"--", "sh", "-c", fmt.Sprintf("echo; sleep %d", recordSeconds))
		commands[i].Stderr, commands[i].WaitDelay = &stderr[i], 10*time.Second
		if begun[i], err = commands[i].StdoutPipe(); err != nil {
			return both, err
		}
		if err := commands[i].Start(); err != nil {
			return both, err
		}
	}
	for i, line := range begun {
		if _, err := bufio.NewReader(line).ReadString('\n'); err != nil {
			return both, fmt.Errorf("%v has not begun: %w\n%s", commands[i].Args, err, &stderr[i])
		}
	}
	work := exec.CommandContext(ctx, "timeout", strconv.Itoa(recordSeconds-2), "sh", "-c",
		fmt.Sprintf("for i in 1 2; do (%s) & done; %s", writer(dir), busy(4*runtime.NumCPU())))
	_ = work.Run() // the status is timeout's
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

// writer returns a command that writes files in a loop.
func writer(dir string) string {
	return "while :; do dd if=/dev/zero of=$(mktemp -p " + dir + " load.XXXX) bs=1M count=200 2>/dev/null; rm -f " + dir + "/load.*; done"
}

// tally counts the samples and lost records of a file.
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
	var lostSamples uint64 // newer kernels count lost samples of each event, in addition to lost records of any type
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
