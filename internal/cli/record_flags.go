package cli

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/perfdata"
)

// defaultFrequency is perf's sampling frequency, in Hz.
const defaultFrequency = 4000

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
		return fmt.Errorf("--call-graph %s: callchains can be recorded by fp, dwarf or lbr", o.callGraph)
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
	bytes, err := parseSize(o.pages)
	if err == nil {
		cfg.RingPages = int((bytes + int64(os.Getpagesize()) - 1) / int64(os.Getpagesize()))
	} else if cfg.RingPages, err = strconv.Atoi(o.pages); err != nil {
		return fmt.Errorf("-m %s: give a number of pages, or of bytes with B, K, M or G", o.pages)
	}
	const most = 1 << 20 // pages; the kernel never accepts more
	if cfg.RingPages < 1 || cfg.RingPages > most {
		return fmt.Errorf("-m %s: the number of pages must be from 1 to %d", o.pages, most)
	}
	cfg.RingPages = 1 << bits.Len(uint(cfg.RingPages-1))
	return nil
}

// parseSize parses a number of bytes with a unit: B, K, M or G.
func parseSize(s string) (int64, error) {
	shift := map[string]int{"B": 0, "K": 10, "M": 20, "G": 30}
	if s == "" {
		return 0, errors.New("is empty")
	}
	by, unit := shift[s[len(s)-1:]]
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 32)
	if !unit || err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a number of bytes with B, K, M or G", s)
	}
	return n << by, nil
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
	if size, err := parseSize(o.rotate); err == nil {
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
