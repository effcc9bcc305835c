package main

import (
	"context"
	"debug/elf"
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
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/test/split"
)

// truth profiles programs whose time is split between two functions. It prints the share of three_parts: as measured by the load itself, and
// in the samples of bperf profile and of perf record, which sample the same run at 999 Hz. It also prints the numbers of their samples in
// both functions.
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
		r, err := profileBeside(b.perf, data(dir), &l, long)
		if err != nil {
			return err
		}
		ours, programs := functionsOf(r.Profile)
		theirs, err := scriptOf(b.perf, data(dir), programs)
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
	return errors.Join(append(errs, b.rangeBeside(&loads[0], data(dir), long))...)
}

func data(dir string) string { return filepath.Join(dir, "perf.data") }

// rangeBeside compares the number of samples in a function, of a program without relocations, between --range and the output of perf script.
func (b *bench) rangeBeside(l *split.Load, file string, long time.Duration) error {
	at, err := symbolRange(l.Command()[0], l.Three)
	if err != nil {
		return err
	}
	r, err := profileBeside(b.perf, file, l, long, at)
	if err != nil {
		return err
	}
	ours := r.Totals.Samples - r.Totals.Filtered
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, b.perf, "script", "-F", "ip", "-i", file).Output()
	if err != nil {
		return fmt.Errorf("perf script: %w", err)
	}
	theirs := uint64(0)
	for address := range strings.FieldsSeq(string(out)) {
		if ip, err := strconv.ParseUint(address, 16, 64); err == nil && ip >= at.Start && ip < at.End {
			theirs++
		}
	}
	const most = 0.01
	fmt.Printf("in %s there are %d samples, for perf %d: %+.2f %%\n", l.Three, ours, theirs, 100*(float64(ours)/float64(theirs)-1))
	if !(math.Abs(float64(ours)/float64(theirs)-1) <= most) {
		return fmt.Errorf("the samples in %s differ by more than %.0f %%", l.Three, 100*most)
	}
	return nil
}

// symbolRange returns the address range of a function of a file.
func symbolRange(file, name string) (sample.Range, error) {
	f, err := elf.Open(file)
	if err != nil {
		return sample.Range{}, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return sample.Range{}, fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return sample.Range{Start: s.Value, End: s.Value + s.Size}, nil
		}
	}
	return sample.Range{}, fmt.Errorf("%s has no symbol %s", file, name)
}

// profileBeside profiles a load while perf record samples it, too, both at 999 Hz. With ranges, the profile has only the samples in them.
func profileBeside(perf, file string, l *split.Load, long time.Duration, ranges ...sample.Range) (sample.Result, error) {
	events, err := event.Host().Parse("cpu-clock")
	if err != nil {
		return sample.Result{}, err
	}
	by, err := sample.ParseKeys([]string{"function"})
	if err != nil {
		return sample.Result{}, err
	}
	note := func(string) {}
	command := append([]string{perf, "record", "-q", "-e", "cpu-clock", "-F", "999", "-o", file, "--"}, l.Command()...)
	return sample.Run(sample.Config{By: by, Keep: profile.Address, Ranges: ranges, Record: record.Config{Events: events, Frequency: 999, Overrides: true, Inherit: true,
		Spec: session.Spec{Command: command, Timeout: 3*long + time.Minute, Notify: note}, Verbose: note, Version: "bench"}})
}

// functionsOf returns the number of samples of each function, and the names of BPF functions by address.
func functionsOf(p *profile.Profile) (functions map[string]uint64, programs map[uint64]string) {
	functions, programs = make(map[string]uint64), make(map[uint64]string)
	for _, s := range p.Samples() {
		name := nameOf(p, s.Leaf)
		functions[name] += s.Count
		if f := p.Frames()[s.Leaf]; f.Kind == profile.BPF {
			programs[f.Address] = name
		}
	}
	return functions, programs
}

func nameOf(p *profile.Profile, f profile.FrameID) string {
	return p.Strings.At(p.Functions.At(p.Frames()[f].Function).Name)
}

// scriptOf returns the number of samples that perf script prints for each function. perf 6.1 loses the names of BPF programs if other sessions
// get their records, too (docs/kernel-notes.md). So scriptOf names BPF functions by their addresses in programs.
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

// shareOf returns the share of Three in the samples of both functions, and the number of these samples.
func shareOf(l *split.Load, functions map[string]uint64) (share float64, samples uint64) {
	var n [2]uint64
	for name, count := range functions {
		if i := slices.IndexFunc([]string{l.One, l.Three}, func(end string) bool { return strings.HasSuffix(name, end) }); i >= 0 {
			n[i] += count
		}
	}
	return float64(n[1]) / float64(n[0]+n[1]), n[0] + n[1]
}
