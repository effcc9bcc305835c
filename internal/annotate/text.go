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
	Lines    bool // the lines with the most samples before each function
	FullPath bool // whole paths of source files
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
	if r.Nameless > 0 {
		fmt.Fprintf(b, "# %d samples are in no known function\n", r.Nameless)
	}
	return b.Flush()
}

func (r *Report) function(b *bufio.Writer, f *Function, o TextOptions) {
	columns, what := len(r.Events), "percent: local period"
	head := strings.Repeat(" Percent", columns)
	if o.Samples {
		head, what = strings.Repeat(" Samples", columns), "samples"
	}
	var events []string
	for e := range r.Events {
		events = append(events, fmt.Sprintf("%s (%d samples, %.2f%% of all)", oneLine(r.Events[e].Name), f.Values[e].Samples, f.Values[e].Percent))
	}
	title := fmt.Sprintf("%s |\tSource code & Disassembly of %s for %s, %s", head, oneLine(f.Module), strings.Join(events, ", "), what)
	fmt.Fprintln(b, title)
	fmt.Fprintln(b, strings.Repeat("-", utf8.RuneCountInString(title)+6))
	empty := strings.Repeat("        ", columns)
	note := func(format string, args ...any) {
		fmt.Fprintf(b, "%s : # %s\n", empty, oneLine(fmt.Sprintf(format, args...)))
	}
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
			fmt.Fprintf(b, "%s : %s:%d %s\n", columnText(l.Values, o), o.path(l.File), l.Number, oneLine(strings.TrimSpace(l.Text)))
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
		if in.Text != "" {
			text = "\t" + in.Text
		}
		if in.Target != "" {
			text += " <" + oneLine(in.Target) + ">"
		}
		fmt.Fprintf(b, "%s :   %x:%s\n", columnText(in.Values, o), uint64(in.Address), text)
	}
	fmt.Fprintln(b)
}

func (o TextOptions) path(file string) string {
	if !o.FullPath {
		file = filepath.Base(file)
	}
	return oneLine(file)
}

func columnText(values []Value, o TextOptions) string {
	var s strings.Builder
	for _, v := range values {
		if o.Samples {
			fmt.Fprintf(&s, "%8d", v.Samples)
		} else {
			fmt.Fprintf(&s, "%8.2f", v.Percent)
		}
	}
	return s.String()
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
