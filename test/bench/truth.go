package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/test/split"
)

// truth profiles programs whose time is split between two functions, and tells what share three_parts had: as the load itself has measured, and as the
// samples of bperf profile and of perf record say, which both are taken at 999 Hz of one run.
func (b *bench) truth(long time.Duration) error {
	dir, err := os.MkdirTemp("", "bperf-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	loads, err := split.Loads(dir, long)
	if err != nil {
		return err
	}
	const most = 0.02
	var errs []error
	fmt.Printf("%-4s %8s %8s %8s %9s %9s\n", "", "itself", "bperf", "perf", "samples", "of perf")
	for _, l := range loads {
		data := filepath.Join(dir, "perf.data")
		ours, programs, err := profileOf(append([]string{b.perf, "record", "-q", "-e", "cpu-clock", "-F", "999", "-o", data, "--"}, l.Command()...), long)
		if err != nil {
			return err
		}
		theirs, err := scriptOf(b.perf, data, programs)
		if err != nil {
			return err
		}
		itself, err := l.Share()
		if err != nil {
			return err
		}
		a, n := shareOf(&l, ours)
		p, m := shareOf(&l, theirs)
		fmt.Printf("%-4s %7.2f%% %7.2f%% %7.2f%% %9d %9d\n", l.Name, 100*itself, 100*a, 100*p, n, m)
		if !(math.Abs(a-itself) <= most && math.Abs(a-p) <= most) {
			errs = append(errs, fmt.Errorf("%s: the shares differ by more than %.0f %%", l.Name, 100*most))
		}
	}
	return errors.Join(errs...)
}

// profileOf is how many samples bperf has taken of a command and its children, by function, and the functions of BPF programs by address.
func profileOf(command []string, long time.Duration) (functions map[string]uint64, programs map[uint64]string, err error) {
	events, err := event.Host().Parse("cpu-clock")
	if err != nil {
		return nil, nil, err
	}
	by, err := sample.ParseKeys([]string{"function"})
	if err != nil {
		return nil, nil, err
	}
	note := func(string) {}
	r, err := sample.Run(sample.Config{By: by, Keep: profile.Address, Record: record.Config{Events: events, Frequency: 999, Overrides: true, Inherit: true, Command: command,
		Timeout: 3*long + time.Minute, Notify: note, Verbose: note, Version: "bench"}})
	if err != nil {
		return nil, nil, err
	}
	functions, programs = make(map[string]uint64), make(map[uint64]string)
	for _, s := range r.Profile.Samples() {
		name := nameOf(r.Profile, s.Leaf)
		functions[name] += s.Count
		if f := r.Profile.Frames()[s.Leaf]; f.Kind == profile.BPF {
			programs[f.Address] = name
		}
	}
	return functions, programs, nil
}

func nameOf(p *profile.Profile, f profile.FrameID) string {
	return p.Strings.At(p.Functions.At(p.Frames()[f].Function).Name)
}

// scriptOf is how many samples perf script prints of each function. perf 6.1 loses the names of BPF programs where others are told of them, too
// (docs/kernel-notes.md): there they go by the address.
func scriptOf(perf, data string, programs map[uint64]string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, perf, "script", "-F", "ip,sym", "-i", data).Output()
	if err != nil {
		return nil, fmt.Errorf("perf script: %w", err)
	}
	functions := make(map[string]uint64)
	for line := range strings.Lines(string(out)) {
		address, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if ip, err := strconv.ParseUint(address, 16, 64); err == nil && programs[ip] != "" {
			name = programs[ip]
		}
		functions[name]++
	}
	return functions, nil
}

// shareOf is the part that Three has of the samples in both functions.
func shareOf(l *split.Load, functions map[string]uint64) (share float64, samples uint64) {
	var n [2]uint64
	for name, count := range functions {
		if i := slices.IndexFunc([]string{l.One, l.Three}, func(end string) bool { return strings.HasSuffix(name, end) }); i >= 0 {
			n[i] += count
		}
	}
	return float64(n[1]) / float64(n[0]+n[1]), n[0] + n[1]
}
