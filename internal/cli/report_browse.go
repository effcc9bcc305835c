package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
)

// browses reports whether the table is a screen to walk through: on a terminal, unless an option asks for something that is printed.
func (f *reportFlags) browses(cmd *cobra.Command, format reportFormat) bool {
	prints := f.stdio || f.output != "" || f.base != "" || format.name != "table" || cmd.Flags().Changed("format") || f.stats || f.header ||
		f.NoHeads || f.Separator != "" || f.Hierarchy || f.threads || f.totalCycles
	return !prints && onScreen(cmd.OutOrStdout())
}

// onScreen reports whether bperf can show a screen on standard input and output.
func onScreen(out any) bool {
	return onTerminal(os.Stdin) && onTerminal(out) && os.Getenv("TERM") != "dumb"
}

// browse shows a screen to walk through the samples. It returns false if there are none.
func (f *reportFlags) browse(cmd *cobra.Command, p *profile.Profile, o *report.Options) (shown bool, err error) {
	s, err := f.screen(cmd.InOrStdin(), p, o)
	if err != nil || s == nil {
		return false, err
	}
	ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	return true, showScreen(ctx, s, nil)
}

// screen returns the screen of a profile's first table, or nil if the profile has no samples. From now on, only the screen may write to the
// terminal.
func (f *reportFlags) screen(stdin io.Reader, p *profile.Profile, o *report.Options) (*reportScreen, error) {
	s := &reportScreen{walk: report.NewWalk(p, o.Group), stacks: o.NeedsStacks(), reportActions: reportActions{
		read:     func(o *report.Options) (*report.Walk, error) { return f.readAgain(stdin, o) },
		annotate: func(function report.WalkFunction) (string, error) { return f.annotated(stdin, function) },
		write:    writeHist,
	}}
	if s.walk.Tables() == 0 {
		return nil, nil
	}
	f.input.fetch(io.Discard)
	t, err := s.walk.Table(0, o, nil)
	s.shown(t, err, 0, o, nil)
	return s, err
}

// browseKeys are the keys that a screen needs besides the sort keys, to show only a thread.
const browseKeys = threads

// readAgain reads the recording for other options.
func (f *reportFlags) readAgain(stdin io.Reader, o *report.Options) (*report.Walk, error) {
	if err := f.rereadable(); err != nil {
		return nil, err
	}
	keys, err := o.NeededKeys()
	if err != nil {
		return nil, err
	}
	recording, err := f.input.open(stdin)
	if err != nil {
		return nil, err
	}
	defer recording.Close()
	p, _, err := f.profile(recording, o, keys|browseKeys)
	if err != nil {
		return nil, err
	}
	o.CutCallees(p)
	return report.NewWalk(p, o.Group), nil
}

func (f *reportFlags) rereadable() error {
	if !regularFile(f.input.path, func(io.ReaderAt) bool { return true }) {
		return fmt.Errorf("%s is not a file that can be read again: keep the recording in a file", f.input.path)
	}
	return nil
}

// profile reads the samples of a recording for a report with these options.
func (f *reportFlags) profile(recording *perfdata.Reader, o *report.Options, keys profile.Keys) (*profile.Profile, replay.Stats, error) {
	f.input.trace, f.input.rawTrace = o.Trace(), f.RawTrace
	f.input.branches, f.input.weights = o.Branches && !f.stats, o.Memory
	return f.input.read(recording, keys)
}

// annotated returns a function with its instructions, as bperf annotate prints it.
func (f *reportFlags) annotated(stdin io.Reader, function report.WalkFunction) (string, error) {
	if err := f.rereadable(); err != nil {
		return "", err
	}
	a := annotateFlags{recordingFlags: f.input, options: f.code, text: f.codeText}
	a.options.Symbol, a.options.Modules = function.Symbol, []string{function.Module}
	a.noStacks, a.branches, a.weights, a.records, a.trace = false, false, false, nil, nil
	found, err := a.report(stdin, io.Discard)
	if err != nil {
		return "", err
	}
	if len(found.Functions) == 0 {
		return "", errors.New("no sample was taken in this function itself: it only called others")
	}
	var b strings.Builder
	err = found.Text(&b, a.text)
	return b.String(), err
}

// maxHists limits the files that bperf looks for a free name of.
const maxHists = 1000

// writeHist writes to the first of perf.hist.0, perf.hist.1 … that does not exist, and returns its name.
func writeHist(text string) (path string, err error) {
	for n := range maxHists {
		path = fmt.Sprintf("perf.hist.%d", n)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(text)
		return path, errors.Join(err, file.Close())
	}
	return "", fmt.Errorf("perf.hist.0 to %s exist: remove some", path)
}
