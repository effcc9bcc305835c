package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/stat"
)

// statOutput is the destination of the counts.
type statOutput struct {
	io.Writer
	file *os.File // closed by Close, or nil
}

// open opens the file or descriptor for the counts. The default is standard error.
func (o *statOptions) open(given func(string) bool) (*statOutput, error) {
	out := &statOutput{Writer: os.Stderr}
	switch {
	case o.quiet, o.recording == "-":
		out.Writer = io.Discard
	case o.output != "":
		mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if o.appendOutput {
			mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		f, err := os.OpenFile(o.output, mode, 0o666)
		if err != nil {
			return nil, fmt.Errorf("create the output file: %w", err)
		}
		out.Writer, out.file = f, f
		if !o.json {
			fmt.Fprintf(f, "# started on %s\n\n", time.Now().Format(time.ANSIC))
		}
	case given("log-fd"):
		f := os.NewFile(uintptr(o.logFD), fmt.Sprintf("fd %d", o.logFD))
		if _, err := f.Stat(); err != nil {
			return nil, badOptionf("--log-fd %d: no such descriptor is open", o.logFD)
		}
		out.Writer, out.file = f, f
	}
	return out, nil
}

// verboseNote returns the function that prints the messages of -v, which --quiet does not silence, as in perf.
func (o *statOptions) verboseNote(note func(string)) func(string) {
	if !o.quiet {
		return note
	}
	loud := sessionOptions{}
	return loud.noteTo(os.Stderr)
}

// noter returns the function that prints notes to standard error, or nothing with --quiet. If the counts go there too, the notes have a form
// that a reader can distinguish from them.
func (o *statOptions) noter(given func(string) bool) func(string) {
	switch mixed := !o.quiet && o.output == "" && !given("log-fd"); {
	case mixed && o.json:
		return func(s string) {
			line, _ := json.Marshal(s) // cannot fail: every string can be marshaled
			fmt.Fprintf(os.Stderr, "{\"note\" : %s}\n", printable.JSON(line))
		}
	case mixed && o.separator != "":
		return func(s string) { fmt.Fprintln(os.Stderr, "#", strings.ReplaceAll(printable.Lines(s), "\n", "\n# ")) }
	default:
		return o.noteTo(os.Stderr)
	}
}

// printer returns a printer of the requested form.
func (o *statOptions) printer(cfg *stat.Config, out *statOutput) stat.Printer {
	form := o.form()
	form.Color = onTerminal(out.Writer) && os.Getenv("NO_COLOR") == "" // no-color.org
	form.Aggregation = cfg.Aggregation
	form.Interval = cfg.Interval > 0
	form.Defaults = cfg.Defaults
	return o.printerOf(form, out)
}

// form returns the options of the output that flags set.
func (o *statOptions) form() stat.OutputOptions {
	return stat.OutputOptions{
		Compat:        o.likePerf,
		Metrics:       o.printedMetrics(),
		Programs:      o.inPrograms,
		Histogram:     o.histogram,
		IntervalClear: o.intervalClear,
		BigNum:        o.bigNum,
		Table:         o.table,
		MetricOnly:    o.metricOnly,
		HideZero:      o.hideZero,
		NoCSVSummary:  o.noCSVSummary,
		Separator:     o.separator,
	}
}

// printerOf returns the printer of text, CSV or JSON.
func (o *statOptions) printerOf(form stat.OutputOptions, out io.Writer) stat.Printer {
	switch {
	case o.json:
		return stat.NewJSON(out, form)
	case o.separator != "":
		return stat.NewCSV(out, form)
	default:
		return stat.NewText(out, form)
	}
}

func (s *statOutput) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
