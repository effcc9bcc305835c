package browse

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
)

// maxInstructions is the number of instructions on a page.
const maxInstructions = 20_000

// heats is the number of shades in browse.css.
const heats = 8

// function writes the page of a function: its instructions and source lines with their shares of the selected samples.
func (b *Browser) function(out *bytes.Buffer, s *selection, id profile.FunctionID) error {
	if b.Code == nil {
		return errors.New(b.NoCode)
	}
	f := b.p.Functions.At(id)
	strings := &b.p.Strings
	name := strings.At(f.Name)
	symbol := replay.Symbol{Name: name, Linkage: name, Start: f.Start, End: f.End}
	if f.Linkage != 0 {
		symbol.Linkage = strings.At(f.Linkage)
	}
	at, event := map[uint64]annotate.Value{}, annotate.Event{Name: b.p.Events[s.event].Name}
	wanted, counts, passes := b.wants(s, s.time), b.Options.Counts(b.p), b.Options.Passes(b.p)
	frames, samples := b.p.Frames(), b.p.Samples()
	for i := range samples {
		sample := &samples[i]
		if !wanted(sample) || !counts(sample) {
			continue
		}
		event.Samples, event.Value = event.Samples+sample.Count, event.Value+sample.Value
		if leaf := &frames[sample.Leaf]; leaf.Function == id && passes(sample) {
			v := at[leaf.Address]
			at[leaf.Address] = annotate.Value{Samples: v.Samples + sample.Count, Value: v.Value + sample.Value}
		}
	}
	b.head(out, name)
	fmt.Fprintf(out, "<header>\n<p><a href=\"/?%s\">Back to the profile</a></p>\n<h1>%s</h1>\n", text(s.query()), text(name))
	if len(at) == 0 {
		out.WriteString("</header><main><p class=\"empty\">There are no samples of this function in the selection.</p></main></body></html>\n")
		return nil
	}
	code, err := b.Code(f.Module, symbol, event, at)
	if err != nil {
		return err
	}
	v := &code.Values[0]
	fmt.Fprintf(out, "<p>%s: %d samples, %.2f %% of the selection, %s; in %s</p>\n", text(event.Name), v.Samples, v.Percent,
		text(report.Quantity(v.Value, b.p.Events[s.event].Unit)), text(code.Module))
	if p := code.Program; p != nil {
		fmt.Fprintf(out, "<p>BPF program %d %s, tag %s</p>\n", p.ID, text(p.Name), text(p.Tag))
	}
	for _, note := range []string{code.Missing, code.NoSource, code.Note} {
		if note != "" {
			fmt.Fprintf(out, "<p class=\"note\">%s</p>\n", text(note))
		}
	}
	out.WriteString("</header>\n<main><div class=\"wide\"><table class=\"code\">\n<thead><tr><th>Share</th><th>Address</th><th class=\"name\">Instruction</th></tr></thead>\n<tbody>\n")
	for i := range code.Instructions[:min(len(code.Instructions), maxInstructions)] {
		instruction(out, &code.Instructions[i])
	}
	out.WriteString("</tbody></table></div>\n")
	if rest := len(code.Instructions) - maxInstructions; rest > 0 {
		fmt.Fprintf(out, "<p class=\"note\">%d more instructions are left out.</p>\n", rest)
	}
	out.WriteString("</main>\n</body>\n</html>\n")
	return nil
}

// instruction writes the row of an instruction. Where a source line begins, the row of that line comes first.
func instruction(out *bytes.Buffer, i *annotate.Instruction) {
	if line := i.Source; line != nil && line.Number != 0 {
		fmt.Fprintf(out, "<tr class=\"source\"><td></td><td title=\"%s\">%s:%d</td><td class=\"name\">%s</td></tr>\n",
			text(line.File), text(filepath.Base(line.File)), line.Number, text(line.Text))
	}
	out.WriteString("<tr>")
	if v := &i.Values[0]; v.Samples == 0 {
		out.WriteString("<td></td>")
	} else {
		heat := int(math.Ceil(heats * v.Heat()))
		fmt.Fprintf(out, "<td class=\"h%d\" title=\"%d samples\">%.2f %%</td>", min(heats, max(1, heat)), v.Samples, v.Percent)
	}
	what := i.Text
	if i.Target != "" {
		what += " <" + i.Target + ">"
	}
	fmt.Fprintf(out, "<td>%s</td><td class=\"name\" title=\"%s\">%s</td></tr>\n", i.Address, text(i.Bytes), text(what))
}
