package annotate

import (
	_ "embed" // for the style of the page
	"fmt"
	"html"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

//go:embed page.css
var pageStyle string

// HTML writes the report as one self-contained page: a section for each function, with instructions and lines coloured by their share.
//
// It does without html/template. That package looks methods up by name, and with it the linker would keep the exported methods of all
// types in the program: 2 MB.
func (r *Report) HTML(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bperf annotate</title>
<style>
%s</style>
</head>
<body>
<h1>bperf annotate</h1>
<p>`, pageStyle)
	for _, e := range r.Events {
		fmt.Fprintf(&b, "%s: %d samples. ", escape(e.Name), e.Samples)
	}
	if r.Nameless != 0 {
		fmt.Fprintf(&b, "%d samples are in no known function. ", r.Nameless)
	}
	if r.Others != 0 {
		fmt.Fprintf(&b, "%d functions with fewer samples are left out.", r.Others)
	}
	b.WriteString("</p>")
	open := " open" // only the first
	for _, f := range r.Functions {
		fmt.Fprintf(&b, "\n<details%s>\n", open)
		open = ""
		f.html(&b, r.Events)
		b.WriteString("</details>")
	}
	b.WriteString("\n</body>\n</html>\n")
	_, err := io.WriteString(w, printable.Lines(b.String()))
	return err
}

// html writes the head line of the function, the notes on it, and the table of its instructions.
func (f *Function) html(b *strings.Builder, events []Event) {
	b.WriteString("<summary>")
	for _, v := range f.Values {
		fmt.Fprintf(b, "%.2f %% ", v.Percent)
	}
	fmt.Fprintf(b, "%s <small>%s</small></summary>\n", escape(f.Name), escape(f.Module))
	if p := f.Program; p != nil {
		fmt.Fprintf(b, "<p>BPF program %d %s, tag %s</p>\n", p.ID, escape(p.Name), escape(p.Tag))
	}
	for _, note := range []string{f.Missing, f.NoSource, f.Note} {
		if note != "" {
			fmt.Fprintf(b, "<p>%s</p>\n", escape(note))
		}
	}
	b.WriteString("<table>\n<tr>")
	for _, e := range events {
		fmt.Fprintf(b, "<th>%s %%</th>", escape(e.Name))
	}
	b.WriteString("<th>address</th><th></th></tr>\n")
	for i := range f.Instructions {
		f.Instructions[i].html(b, len(events))
	}
	b.WriteString("</table>\n")
}

// html writes the row of the instruction. Where a source line begins, the row of that line comes first.
func (i *Instruction) html(b *strings.Builder, events int) {
	if line := i.Source; line != nil && line.Number != 0 {
		fmt.Fprintf(b, `<tr class="source">%s<td class="n" title="%s">%s:%d</td><td><b>%s</b></td></tr>`+"\n",
			strings.Repeat("<td></td>", events), escape(line.File), escape(filepath.Base(line.File)), line.Number, escape(line.Text))
	}
	b.WriteString("<tr>")
	for _, v := range i.Values {
		if v.Samples == 0 {
			b.WriteString(`<td class="n"></td>`)
			continue
		}
		fmt.Fprintf(b, `<td class="n" style="background: rgb(var(--hot) / %.2f)" title="%d samples">%.2f</td>`, v.Heat(), v.Samples, v.Percent)
	}
	text := i.Text
	if i.Target != "" {
		text += " <" + i.Target + ">"
	}
	fmt.Fprintf(b, `<td class="n">%s</td><td title="%s">%s</td></tr>`+"\n", i.Address, i.Bytes, escape(text))
}

// Heat returns the strength of an instruction's colour, from 0 to 1: 0.5 at 5 %.
func (v Value) Heat() float64 { return 1 - math.Exp2(-v.Percent/5) }

// escape makes text safe in an element, and in an attribute in double quotes. A + could begin a letter in UTF-7, for a reader that guesses
// the encoding.
func escape(text string) string { return strings.ReplaceAll(html.EscapeString(text), "+", "&#43;") }
