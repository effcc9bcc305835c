package cli

import (
	"fmt"
	"math/bits"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/perfdata"
)

// defaultFrequency is perf's sampling frequency, in Hz.
const defaultFrequency = 4000

// addEvents adds the flags for what is sampled and how often.
func (o *recordOptions) addEvents(f *pflag.FlagSet, frequency int) {
	f.VarP(eventFlag{&o.events, argEvents}, "event", "e", "events to sample, comma-separated (cycles, or cpu-clock without a PMU); see bperf list")
	addEventFiles(f, &o.eventFiles)
	f.VarP(eventFlag{&o.events, argCgroups}, "cgroup", "G", "cgroups of the events before it: one for all, or one for each")
	f.Var(eventFlag{&o.events, argFilter}, "filter", "filter `EXPR` for the event before it: of fields of a tracepoint, or else of the sample")
	o.addPrograms(f)
	o.addRate(f, frequency)
}

// addRate adds the flags for how often it is sampled.
func (o *recordOptions) addRate(f *pflag.FlagSet, frequency int) {
	f.StringVarP(&o.frequency, "freq", "F", "", "the sampling `FREQUENCY`, in samples per second and CPU; \"max\" is the highest that the kernel allows (default "+strconv.Itoa(frequency)+")")
	f.Uint64VarP(&o.period, "count", "c", 0, "sample each `N`th event")
}

func (o *recordOptions) setFrequency(cfg *record.Config) (err error) {
	switch {
	case o.period > 0:
		return nil
	case o.frequency == "":
		cfg.Frequency = defaultFrequency
	case o.frequency == "max":
		cfg.MaxRate = true
	default:
		cfg.Frequency, err = strconv.ParseUint(o.frequency, 10, 32)
		if err != nil || cfg.Frequency == 0 {
			return fmt.Errorf("-F %s: give a number of samples per second, or max", o.frequency)
		}
	}
	return nil
}

func (o *recordOptions) setCallchain(cfg *record.Config) error {
	mode, size, sized := strings.Cut(o.callGraph, ",")
	switch mode {
	case "":
		if o.framePointers {
			cfg.Callchain = record.CallchainFP
		}
	case "fp":
		cfg.Callchain = record.CallchainFP
	case "lbr":
		cfg.Callchain = record.CallchainLBR
	case "bpf":
		cfg.Callchain = record.CallchainBPF
	case "dwarf":
		cfg.Callchain, cfg.StackSize = record.CallchainDWARF, record.DefaultStack
		if !sized {
			return nil
		}
		n, err := strconv.ParseUint(size, 10, 32)
		if err != nil || n == 0 || n > event.MostStack {
			return fmt.Errorf("--call-graph %s: the stack size must be from 8 to %d bytes", o.callGraph, event.MostStack)
		}
		cfg.StackSize = uint32((n + 7) &^ 7)
		return nil
	default:
		return fmt.Errorf("--call-graph %s: callchains can be recorded by fp, bpf, dwarf or lbr", o.callGraph)
	}
	if sized {
		return fmt.Errorf("--call-graph %s: only dwarf takes a size", o.callGraph)
	}
	return nil
}

func (o *recordOptions) setBranches(cfg *record.Config) error {
	if o.anyBranch {
		cfg.Branches = perfdata.BranchAny
	}
	if o.branchFilter == "" {
		return nil
	}
	kinds, err := event.ParseBranches(o.branchFilter)
	if err != nil {
		return fmt.Errorf("-j %s: %w", o.branchFilter, err)
	}
	cfg.Branches |= kinds
	return nil
}

// clocks maps the names of -k, without the prefix CLOCK_, to clock IDs (<linux/time.h>).
var clocks = map[string]int32{
	"realtime": 0, "real": 0, "monotonic": 1, "mono": 1, "monotonic_raw": 4, "raw": 4, "boottime": 7, "boot": 7, "tai": 11,
}

func (o *recordOptions) setClock(cfg *record.Config) error {
	if o.clockID == "" {
		return nil
	}
	id, known := clocks[strings.TrimPrefix(strings.ToLower(o.clockID), "clock_")]
	if n, err := strconv.ParseInt(o.clockID, 10, 32); err == nil {
		id, known = int32(n), true
	}
	if !known {
		return fmt.Errorf("-k %s: the clocks are monotonic, monotonic_raw, realtime, boottime and tai", o.clockID)
	}
	cfg.ClockID = &id
	return nil
}

// setPages parses a number of pages or a size in bytes, and rounds it up to a power of two.
func (o *recordOptions) setPages(cfg *record.Config) error {
	if o.pages == "" {
		return nil
	}
	if bytes, ok := parseSize(o.pages); ok {
		cfg.RingPages = int((bytes + int64(os.Getpagesize()) - 1) / int64(os.Getpagesize()))
	} else if pages, err := strconv.Atoi(o.pages); err == nil {
		cfg.RingPages = pages
	} else {
		return fmt.Errorf("-m %s: give a number of pages, or of bytes with B, K, M or G", o.pages)
	}
	const most = 1 << 20 // pages; the kernel never accepts more
	if cfg.RingPages < 1 || cfg.RingPages > most {
		return fmt.Errorf("-m %s: the number of pages must be from 1 to %d", o.pages, most)
	}
	cfg.RingPages = 1 << bits.Len(uint(cfg.RingPages-1))
	return nil
}

// parseSize parses a positive number of bytes with a unit: B, K, M or G.
func parseSize(s string) (bytes int64, ok bool) {
	for shift, unit := range []string{"B", "K", "M", "G"} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseInt(number, 10, 32)
			return n << (10 * shift), err == nil && n > 0
		}
	}
	return 0, false
}

func (o *recordOptions) setMaxSize(cfg *record.Config) error {
	if o.maxSize == "" {
		return nil
	}
	size, ok := parseSize(o.maxSize)
	if !ok {
		return fmt.Errorf("--max-size %s: give a size with B, K, M or G, such as 100M", o.maxSize)
	}
	cfg.MaxSize = size
	return nil
}

func (o *recordOptions) setSwitch(cfg *record.Config) error {
	cfg.Switch.MaxFiles = o.maxFiles
	if o.rotate == "" {
		return nil
	}
	if o.rotate == "signal" {
		requests := make(chan os.Signal, 1)
		signal.Notify(requests, syscall.SIGUSR2)
		cfg.Switch.Requests = requests
		return nil
	}
	if size, ok := parseSize(o.rotate); ok {
		cfg.Switch.Size = size
		return nil
	}
	value := o.rotate
	if days, ok := strings.CutSuffix(value, "d"); ok { // a unit that ParseDuration lacks
		if n, err := strconv.Atoi(days); err == nil {
			value = strconv.Itoa(24*n) + "h"
		}
	}
	every, err := time.ParseDuration(value)
	if err != nil || every <= 0 {
		return fmt.Errorf("--switch-output=%s: give signal, a size like 100M, or a time like 30s, 5m, 1h or 1d", o.rotate)
	}
	cfg.Switch.Every = every
	return nil
}
