package cli

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/target"
)

// recordingFlags say which recording is read, what of it, and where its symbols are.
type recordingFlags struct {
	path     string
	time     string
	pids     []int32
	tids     []int32
	cpus     string
	noInline bool
	kallsyms string
	symfs    string
	force    bool

	callSites bool // no flag: what the format wants (replay.Options)
}

func (f *recordingFlags) add(cmd *cobra.Command, path string) {
	flags := cmd.Flags()
	if path != "" {
		flags.StringVarP(&f.path, "input", "i", path, "read the recording `FILE`; - is standard input")
	}
	flags.StringVar(&f.time, "time", "", "only from `START,STOP`, in seconds; one of them may be missing")
	flags.Int32SliceVar(&f.pids, "pid", nil, "only these processes: `PIDS`")
	flags.Int32SliceVar(&f.tids, "tid", nil, "only these threads: `TIDS`")
	flags.StringVarP(&f.cpus, "cpu", "C", "", "only these `CPUS`: 0-3,8")
	flags.BoolVar(&f.noInline, "no-inline", false, "do not look for inlined functions")
	flags.StringVar(&f.kallsyms, "kallsyms", "", "take the kernel's symbols from `FILE`")
	flags.StringVar(&f.symfs, "symfs", "", "look for files with symbols below `DIR`")
	flags.BoolVarP(&f.force, "force", "f", false, "read recordings of other users, as is always done: for perf's command lines")
}

// open opens a recording.
func (f *recordingFlags) open(path string) (*perfdata.Reader, error) {
	if path == "-" {
		return perfdata.NewPipeReader(os.Stdin)
	}
	r, err := perfdata.Open(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: make a recording with bperf record, or name one with -i", err)
	}
	return r, err
}

// read makes a profile of a recording.
func (f *recordingFlags) read(recording *perfdata.Reader, keep profile.Keys) (*profile.Profile, replay.Stats, error) {
	filter, err := f.filter()
	if err != nil {
		return nil, replay.Stats{}, &ExitError{Status: statusBadOption, Err: err}
	}
	r, err := replay.New(recording, replay.Options{SymFS: f.symfs, Kallsyms: f.kallsyms, NoInline: f.noInline, Lines: keep.Has(profile.Line),
		CallSites: f.callSites, Filter: filter})
	if err != nil {
		return nil, replay.Stats{}, err
	}
	p, err := r.Profile(keep)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	return p, r.Stats(), nil
}

// readFile opens a recording and makes a profile of it.
func (f *recordingFlags) readFile(cmd *cobra.Command, path string, keep profile.Keys) (*profile.Profile, error) {
	recording, err := f.open(path)
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	p, stats, err := f.read(recording, keep)
	if err != nil {
		return nil, err
	}
	warnAbout(cmd, stats)
	return p, nil
}

func (f *recordingFlags) filter() (replay.Filter, error) {
	filter := replay.Filter{PIDs: f.pids, TIDs: f.tids}
	if f.cpus != "" {
		cpus, err := target.ParseCPUList(f.cpus)
		if err != nil {
			return filter, fmt.Errorf("--cpu %s: %w", f.cpus, err)
		}
		filter.CPUs = cpus
	}
	if f.time == "" {
		return filter, nil
	}
	start, stop, both := strings.Cut(f.time, ",")
	window := replay.TimeRange{End: math.MaxUint64}
	var err error
	if start != "" {
		if window.Start, err = nanoseconds(start); err != nil {
			return filter, err
		}
	}
	if both && stop != "" {
		if window.End, err = nanoseconds(stop); err != nil {
			return filter, err
		}
	}
	filter.Times = []replay.TimeRange{window}
	return filter, nil
}

// nanoseconds parses a time of the recording's clock in seconds, without rounding.
func nanoseconds(text string) (uint64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) <= 9 {
		n, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
		if err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("--time: %q is no time in seconds, such as 1234.567890", text)
}

// badPrograms is for replay.Stats.BadPrograms.
const badPrograms = "IDs, code or lines of BPF programs are missing, as what the recording tells of them cannot be read: %v"

// warnAbout tells what is missing in a recording.
func warnAbout(cmd *cobra.Command, stats replay.Stats) {
	warn := func(format string, values ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: "+format+"\n", values...)
	}
	if stats.Truncated {
		warn("the recording ends in the middle: it was not closed, or not copied whole")
	}
	if stats.LostRecords > 0 {
		warn("the kernel had no room for %d records: record with larger buffers (-m) or fewer samples (-F)", stats.LostRecords)
	}
	if stats.OutOfOrder > 0 {
		warn("%d records are older than what was read before them: names may be those of a moment later", stats.OutOfOrder)
	}
	if stats.BadContexts > 0 {
		warn("%d callchains cannot be understood and are left out", stats.BadContexts)
	}
	if stats.BadPrograms != nil {
		warn(badPrograms, stats.BadPrograms)
	}
}
