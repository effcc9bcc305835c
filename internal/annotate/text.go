package annotate

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TextOptions select what a text shows besides instructions, lines and percentages.
type TextOptions struct {
	Samples  bool // numbers of samples in place of percentages
	Periods  bool // sums of periods in place of percentages
	Bytes    bool // the bytes of instructions
	Lines    bool // the lines with the most samples before each function
	FullPath bool // whole paths of source files
	Shares   Shares
}

// Shares says what percentages are shares of. The zero value is perf's default: the sum of the function's periods.
type Shares struct {
	Global bool // of all functions
	Hits   bool // of the number of samples
}

// ParseShares parses perf's names: local-period, local-hits, global-period and global-hits.
func ParseShares(name string) (Shares, error) {
	for _, s := range []Shares{{}, {Hits: true}, {Global: true}, {Global: true, Hits: true}} {
		if s.String() == name {
			return s, nil
		}
	}
	return Shares{}, fmt.Errorf("%q is none of local-period, local-hits, global-period and global-hits", name)
}

func (s Shares) String() string {
	of, what := "local", "period"
	if s.Global {
		of = "global"
	}
	if s.Hits {
		what = "hits"
	}
	return of + "-" + what
}

// Text writes the report like perf annotate --stdio: a section for each function, with a column for each event.
func (r *Report) Text(w io.Writer, o TextOptions) error {
	b := bufio.NewWriter(w)
	for _, f := range r.Functions {
		r.function(b, f, o)
	}
	if r.Others > 0 {
		fmt.Fprintf(b, "# %d functions with fewer samples are left out\n", r.Others)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(b, "# %d functions whose code cannot be read are left out\n", r.Unreadable)
	}
	if r.Nameless > 0 {
		fmt.Fprintf(b, "# %d samples are in no known function\n", r.Nameless)
	}
	return b.Flush()
}

func (r *Report) function(b *bufio.Writer, f *Function, o TextOptions) {
	empty := strings.Repeat(" ", r.heading(b, f, o))
	fmt.Fprintf(b, "%s :\n", empty)
	note := func(format string, args ...any) {
		fmt.Fprintf(b, "%s : # %s\n", empty, oneLine(fmt.Sprintf(format, args...)))
	}
	var shares []string
	for e := range r.Events {
		shares = append(shares, fmt.Sprintf("%.2f%% of %s", f.Values[e].Percent, r.Events[e].Name))
	}
	note("%s: %s", f.Module, strings.Join(shares, ", "))
	if f.Program != nil {
		note("BPF program %d %s, tag %s", f.Program.ID, f.Program.Name, f.Program.Tag)
	}
	if f.Missing != "" {
		note("%s", f.Missing)
	}
	if f.NoSource != "" {
		note("%s", f.NoSource)
	}
	if f.Note != "" {
		note("%s", f.Note)
	}
	if o.Lines {
		for _, l := range f.Lines {
			fmt.Fprintf(b, "%s : %s:%d %s\n", r.columns(f, l.Values, o), o.path(l.File), l.Number, oneLine(strings.TrimSpace(l.Text)))
		}
		if len(f.Lines) > 0 {
			fmt.Fprintf(b, "%s :\n", empty)
		}
	}
	fmt.Fprintf(b, "%s : %016x <%s>:\n", empty, uint64(f.Start), oneLine(f.Name))
	file := ""
	for i := range f.Instructions {
		in := &f.Instructions[i]
		if l := in.Source; l != nil && l.Number > 0 {
			if l.File != file {
				file = l.File
				fmt.Fprintf(b, "%s : %s:%d\n", empty, o.path(file), l.Number)
			}
			fmt.Fprintf(b, "%s : %-6d %s\n", empty, l.Number, oneLine(l.Text))
		}
		text := ""
		if o.Bytes && in.Bytes != "" {
			text = fmt.Sprintf("\t%-*s", bytesWidth, in.Bytes)
		}
		if in.Text != "" {
			text += "\t" + in.Text
		}
		if in.Target != "" {
			text += " <" + oneLine(in.Target) + ">"
		}
		fmt.Fprintf(b, "%s :   %x:%s\n", r.columns(f, in.Values, o), uint64(in.Address), text)
	}
	fmt.Fprintln(b)
}

// heading writes perf's two lines before a function and returns the width of the columns. As in perf annotate --group, the number of
// samples is that of the first event.
func (r *Report) heading(b *bufio.Writer, f *Function, o TextOptions) (width int) {
	column := " Percent"
	switch {
	case o.Samples:
		column = " Samples"
	case o.Periods:
		column = " Period     "
	}
	var events []string
	for e := range r.Events {
		events = append(events, r.Events[e].Name)
	}
	head := strings.Repeat(column, len(r.Events))
	title := fmt.Sprintf("%s |\tSource code & Disassembly of %s for %s (%d samples, percent: %s)", head, oneLine(filepath.Base(f.Module)),
		oneLine(strings.Join(events, ", ")), f.Values[0].Samples, strings.Replace(o.Shares.String(), "-", " ", 1))
	fmt.Fprintln(b, title)
	fmt.Fprintln(b, strings.Repeat("-", utf8.RuneCountInString(title)+5))
	return len(head)
}

// bytesWidth is the width of the bytes of most instructions.
const bytesWidth = len("48 8b 05 00 00 00 00")

func (o TextOptions) path(file string) string {
	if !o.FullPath {
		file = filepath.Base(file)
	}
	return oneLine(file)
}

// columns returns the columns for the values of an instruction or a line of a function.
func (r *Report) columns(f *Function, values []Value, o TextOptions) string {
	var s strings.Builder
	for e, v := range values {
		switch {
		case o.Samples:
			fmt.Fprintf(&s, "%8d", v.Samples)
		case o.Periods:
			fmt.Fprintf(&s, "%12d", v.Value)
		default:
			fmt.Fprintf(&s, "%8.2f", o.Shares.of(v, f.Values[e], r.Events[e]))
		}
	}
	return s.String()
}

// of returns a share of a function, or of all functions, in percent.
func (s Shares) of(v, function Value, all Event) float64 {
	whole := function
	if s.Global {
		whole = Value{Samples: all.Samples, Value: all.Value}
	}
	if s.Hits {
		v.Value, whole.Value = v.Samples, whole.Samples
	}
	if whole.Value == 0 {
		return 0
	}
	return 100 * float64(v.Value) / float64(whole.Value)
}

// oneLine replaces control characters and invalid UTF-8, except tabs. Names in recordings and files can have any bytes and must not forge
// other output.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}
