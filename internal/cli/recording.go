package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/perfdata"
)

// recordingFlags select a recording, its samples, and the files with its symbols.
type recordingFlags struct {
	filterFlags
	symbolFlags
	path     string
	maxStack int // frames
	switches replay.Switches

	maxSamples        int  // not a flag (replay.Options)
	noStacks          bool // not a flag: set if the format needs no stacks (replay.Options)
	branches, weights bool // not flags: what the report is of (replay.Options)

	// Not flags: fields of replay.Options. Without trace, the key "trace" is the only one of tracepoints.
	records  func(*perfdata.Record)
	trace    func(event *perfdata.Event, raw, out []byte, function tracedata.Resolve) []byte
	rawTrace bool // not a flag: report.Options.RawTrace
}

// add adds the flags. The letter is that of --cpu.
func (f *recordingFlags) add(flags *pflag.FlagSet, letter string) {
	f.filterFlags.add(flags, letter)
	f.symbolFlags.add(flags)
	addPerfOptions(flags, recordingPerfOptions)
}

func (f *recordingFlags) addInput(flags *pflag.FlagSet) {
	flags.StringVarP(&f.path, "input", "i", "",
		"read the recording `FILE` (default perf.data; - for standard input, also the default where that is a pipe or a recording)")
}

func (f *recordingFlags) addMaxStack(flags *pflag.FlagSet) {
	flags.Var((*framesFlag)(&f.maxStack), "max-stack", "cut callchains after `FRAMES` frames (default 127)")
}

// framesFlag is a flag for a number of frames.
type framesFlag int

// Set implements pflag.Value.
func (n *framesFlag) Set(text string) error {
	frames, err := strconv.Atoi(text)
	if err != nil || frames < 0 {
		return errors.New("it is a number of frames, from 0 on")
	}
	*n = framesFlag(frames)
	return nil
}

func (n *framesFlag) String() string { return strconv.Itoa(int(*n)) }

func (n *framesFlag) Type() string { return "int" }

// open opens the recording of --input.
func (f *recordingFlags) open(stdin io.Reader) (*perfdata.Reader, error) {
	if f.path == "" {
		f.path = defaultInput(stdin)
	}
	return openRecording(f.path, stdin)
}

// defaultInput returns the recording to read without --input. As in perf, that is standard input if it is a pipe. A file there must begin
// like a recording: in scripts, standard input can be anything.
func defaultInput(stdin io.Reader) string {
	if file, ok := stdin.(*os.File); ok {
		info, err := file.Stat()
		if err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular() && perfdata.IsRecording(file)) {
			return "-"
		}
	}
	return "perf.data"
}

// writeHeader writes the header of the recording.
func (f *recordingFlags) writeHeader(cmd *cobra.Command, w io.Writer, recording *perfdata.Reader, topology bool) error {
	o := report.HeaderOptions{Topology: topology}
	at, known := recording.Modified()
	if input, ok := cmd.InOrStdin().(*os.File); !known && ok {
		if info, err := input.Stat(); err == nil {
			at = info.ModTime()
		}
	}
	o.Captured = at
	return report.Header(w, recording, o)
}

// isRecording reports whether a regular file begins like a recording.
func isRecording(path string) bool { return regularFile(path, perfdata.IsRecording) }

// regularFile reports what f says of a regular file. It reads nothing from a pipe. It is false for a file that cannot be read: the caller's
// own open reports the error.
func regularFile(path string, f func(io.ReaderAt) bool) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return f(file)
}

// options returns the options for replaying a recording.
func (f *recordingFlags) options(recording *perfdata.Reader) (o replay.Options, err error) {
	o = f.symbolFlags.options()
	o.MaxSamples = f.maxSamples
	o.NoStacks, o.MaxStack, o.Branches, o.Weights = f.noStacks, f.maxStack, f.branches, f.weights
	o.Records, o.Trace = f.records, f.trace
	if o.Filter, err = f.filter(recording); err != nil {
		return o, badOption(err)
	}
	o.Filter.Switches = f.switches
	return o, checkSwitches(f.switches, recording)
}

// buildIDDir is a flag that perf's users give before or after the subcommand.
const buildIDDir = "buildid-dir"

// symbolFlags say where symbols are, and limit the memory for them.
type symbolFlags struct {
	symfs    string
	kallsyms string
	vmlinux  string
	buildIDs string
	inline   bool
	demangle bool
	memory   uint32 // MiB

	debuginfod *debuginfod.Client // nil without fetch, and without $DEBUGINFOD_URLS
}

// debuginfodHelp is the last part of the help of commands that fetch.
const debuginfodHelp = `

If $DEBUGINFOD_URLS is set, what is not on this machine comes from these debuginfod servers: debugging information of programs without
symbols, and source files. The variables of debuginfod-client-config(7) apply.`

// fetch makes options fetch what is not on this machine from the debuginfod servers that the user has named, if any. notes gets problems
// with them and, if it is a terminal, the progress.
func (f *symbolFlags) fetch(notes io.Writer) {
	if os.Getenv("DEBUGINFOD_URLS") != "" {
		f.debuginfod = debuginfod.New(context.Background(), debuginfod.Options{Getenv: os.Getenv, Notes: notes, Progress: onTerminal(notes)})
	}
}

func (f *symbolFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.inline, "inline", true, "look for inlined functions, which takes time: --no-inline is faster")
	flags.BoolVar(&f.demangle, "demangle", true, "show the names of C++ and Rust functions as in the source: --no-demangle shows the linker's")
	flags.StringVar(&f.kallsyms, "kallsyms", "", "read the kernel's symbols from `FILE`, a copy of /proc/kallsyms")
	flags.StringVarP(&f.vmlinux, "vmlinux", "k", "", "read the kernel's symbols from `FILE`, its image")
	flags.StringVar(&f.symfs, "symfs", "", "look for files with symbols below `DIR`")
	flags.StringVar(&f.buildIDs, buildIDDir, "", "look for files with symbols in `DIR`, a cache of perf buildid-cache (default ~/.debug)")
	flags.Uint32Var(&f.memory, "symbol-memory", allowance.DefaultMemory>>20, "keep at most `MIB` MiB of symbols; files beyond that have no symbols")
	perfHasNo(flags, "symbol-memory")
}

func (f *symbolFlags) options() replay.Options {
	return replay.Options{SymFS: f.symfs, Kallsyms: f.kallsyms, Vmlinux: f.vmlinux, BuildIDs: f.buildIDs, NoInline: !f.inline, Mangled: !f.demangle,
		Debuginfod: f.debuginfod, Allowance: allowance.New(int64(f.memory) << 20)}
}

// GOGC percentages. firstGarbage is for commands that keep most of what they allocate at first: collections below 12 MiB, the least heap
// with it, would free nothing. garbage is for commands that read a recording. They keep most of the rest, too, so that more frequent
// collections than by default cost little.
const (
	firstGarbage = 300
	garbage      = 40
)

// collectLate sets firstGarbage, and another percentage when the first collection has ended.
func collectLate(then int) {
	debug.SetGCPercent(firstGarbage)
	runtime.AddCleanup(new(string), func(percent int) { debug.SetGCPercent(percent) }, then)
}

// openRecording opens a file, or standard input for "-". It also sets GOGC, unless the user did.
func openRecording(path string, stdin io.Reader) (*perfdata.Reader, error) {
	if os.Getenv("GOGC") == "" && debug.SetGCPercent(garbage) != garbage { // not once more for the next recording
		collectLate(garbage)
	}
	if path == "-" {
		return readInput(stdin)
	}
	r, err := perfdata.Open(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: make a recording with bperf record, or name one with -i", err)
	}
	return r, err
}

// readInput reads a recording from standard input: a pipe, or a file that a shell opened.
func readInput(stdin io.Reader) (*perfdata.Reader, error) {
	if file, ok := stdin.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return perfdata.NewReader(file, info.Size())
		}
	}
	return perfdata.NewPipeReader(stdin)
}

// replay returns a replay that makes a profile with these keys.
func (f *recordingFlags) replay(recording *perfdata.Reader, keep profile.Keys) (*replay.Replay, error) {
	if err := f.checkMode(recording); err != nil {
		return nil, err
	}
	o, err := f.options(recording)
	if err != nil {
		return nil, err
	}
	o.Lines = keep.Has(profile.Line)
	if keep.Has(profile.Trace) && o.Trace == nil {
		text := report.Options{RawTrace: f.rawTrace}
		if err := text.ReadTracepoints(recording); err != nil {
			return nil, err
		}
		o.Trace = text.Trace()
	}
	return replay.New(recording, o), nil
}

// read reads a recording into a profile.
func (f *recordingFlags) read(recording *perfdata.Reader, keep profile.Keys) (*profile.Profile, replay.Stats, error) {
	r, err := f.replay(recording, keep)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	defer r.Close()
	p, err := r.Profile(keep)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	return p, r.Stats(), nil
}

// readFile reads a recording, or a profile in pprof's format.
func (f *recordingFlags) readFile(cmd *cobra.Command, path string, keep profile.Keys) (*profile.Profile, error) {
	if isCompressed(path) {
		return f.readPprof(path, keep)
	}
	recording, err := openRecording(path, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	p, stats, err := f.read(recording, keep)
	if err != nil {
		return nil, err
	}
	printLosses(cmd.ErrOrStderr(), stats)
	return p, nil
}

// isCompressed reports whether a regular file starts like a gzip file (RFC 1952). pprof profiles do, recordings never.
func isCompressed(path string) bool {
	return regularFile(path, func(file io.ReaderAt) bool { return beginsWith(file, "\x1f\x8b") })
}

func beginsWith(file io.ReaderAt, magic string) bool {
	start := make([]byte, len(magic))
	_, err := file.ReadAt(start, 0)
	return err == nil && string(start) == magic
}

// ofRecordings are the keys that pprof profiles lack.
const ofRecordings = profile.Address | profile.Other | profile.IP | profile.Weight | profile.DataSource | profile.DataAddress | profile.PhysAddress |
	profile.PageSize | profile.Transaction | profile.CgroupID | profile.Branch | profile.Trace | profile.Block

func (f *recordingFlags) readPprof(path string, keep profile.Keys) (*profile.Profile, error) {
	if f.filterFlags != (filterFlags{}) || f.switches != (replay.Switches{}) {
		return nil, badCombinationf("%s is a pprof profile: --time, --pid, --tid, -C, --socket-filter and --switch-on apply only to recordings", path)
	}
	if keep&ofRecordings != 0 || f.branches || f.weights {
		return nil, badCombinationf("%s is a pprof profile, which does not separate samples by address or tag, or by what the hardware recorded", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := report.ReadPprof(file, keep)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
