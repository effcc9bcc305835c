package cli

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/sample"
)

// narrow restricts samples to those of --range and -b.
func (o *profileOptions) narrow(cfg *sample.Config) error {
	kallsyms := cmp.Or(o.symbols.kallsyms, "/proc/kallsyms")
	for _, text := range o.ranges {
		r, found, err := sample.ParseRange(text, kallsyms)
		if err != nil {
			return badOptionf("--range: %w", err)
		}
		if found {
			cfg.Ranges = append(cfg.Ranges, r)
		} else {
			cfg.Functions = append(cfg.Functions, text)
		}
	}
	if len(cfg.Ranges) > 0 && len(cfg.Functions) > 0 {
		return badCombinationf("--range %s is not a function of the kernel: it cannot be combined with addresses and "+
			"functions of the kernel", cfg.Functions[0])
	}
	if len(cfg.Functions) > 0 && !cfg.By.Stack && !cfg.By.IP {
		return badCombinationf("--range %s is not a function of the kernel: to find samples in other functions, "+
			"--by needs stack or ip", cfg.Functions[0])
	}
	if o.programs == "" {
		return nil
	}
	selector, err := bpfprog.Parse(o.programs)
	if err != nil {
		return badOption(err)
	}
	cfg.Programs, err = sample.ProgramRanges(selector)
	return err
}

// setInterval makes the session write a profile for each interval of -I.
func (o *profileOptions) setInterval(cmd *cobra.Command, given bool, cfg *sample.Config, format reportFormat, shown *report.Options) error {
	if !given {
		return nil
	}
	cfg.Every = time.Duration(o.every * float64(time.Second))
	dir := o.report.output
	switch {
	case cfg.Every < 100*time.Millisecond:
		return badCombinationf("-I %v: the interval must be at least 0.1 s", o.every)
	case o.report.http != "":
		return badCombinationf("-I and --http cannot be combined")
	case o.report.base != "":
		return badCombinationf("-I and --diff cannot be combined")
	case format.name == "json":
		return o.jsonLines(cmd, cfg, shown)
	case format.name != "pprof":
		return badCombinationf("-I supports the formats json and pprof, not %s", format.name)
	case toStdout(dir):
		return badCombinationf("-I writes a file for each interval: name a directory with -o")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	cfg.Each = func(p *profile.Profile) error {
		file, err := os.Create(filepath.Join(dir, p.Info.Start.UTC().Format("20060102T150405.000")+".pb.gz"))
		if err != nil {
			return err
		}
		return errors.Join(format.write(file, p, nil, shown), file.Close())
	}
	return nil
}

// jsonLines makes the session write each profile as one line when its interval ends.
func (o *profileOptions) jsonLines(cmd *cobra.Command, cfg *sample.Config, shown *report.Options) error {
	out := cmd.OutOrStdout()
	if !toStdout(o.report.output) {
		file, err := os.Create(o.report.output)
		if err != nil {
			return err
		}
		out = file // closed at the end of the process; each line is written at once
	}
	cfg.Each = func(p *profile.Profile) error {
		data, err := report.NewJSON(p, shown)
		if err != nil {
			return err
		}
		return writeRecord(out, profileSchema, p.Info.Start.Add(p.Info.Duration), data)
	}
	return nil
}
