package browse

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
)

const (
	maxTasks = 300 // in the list of processes, and in that of threads
	maxRows  = 200 // of the table of functions
	bins     = 200 // of the histogram
	barTop   = 40  // height of the histogram
)

// text makes text of others safe in an element, and in an attribute in double quotes.
func text(s string) string { return html.EscapeString(printable.Text(s)) }

// head writes the beginning of a page.
func (b *Browser) head(out *bytes.Buffer, title string) {
	fmt.Fprintf(out, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style>
</head>
<body>
`, text(title), b.style)
}

// overview writes the page of a selection.
func (b *Browser) overview(out *bytes.Buffer, s *selection) error {
	b.head(out, "Profile of "+b.Name)
	fmt.Fprintf(out, "<header>\n<h1>%s</h1>\n", text(b.Name))
	info := &b.p.Info
	var about []string
	if len(info.Command) > 0 {
		about = append(about, strings.Join(info.Command, " "))
	}
	if info.Hostname != "" {
		about = append(about, "on "+info.Hostname)
	}
	if !info.Start.IsZero() {
		about = append(about, info.Start.Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(out, "<p>%s</p>\n", text(strings.Join(about, ", ")))
	b.notes(out)
	out.WriteString("</header>\n<main>\n")
	b.form(out, s)
	part, base := b.part(s, s.time), b.base(s)
	if part.Events[s.event].Samples == 0 {
		out.WriteString("<p class=\"empty\">There are no samples in this selection.</p>\n")
	} else if base != nil && len(base.Samples()) == 0 {
		out.WriteString("<p class=\"empty\">There are no samples in the time to compare with.</p>\n")
	} else {
		out.WriteString(`<div class="tools"><label>Search <input data-is="search" type="search" placeholder="regular expression"></label>
<button type="button" data-do="reset">Reset zoom</button></div>
`)
		if base != nil {
			out.WriteString("<p>Red has grown, blue has shrunk.</p>\n")
		}
		if err := report.WriteFlames(out, part, base, b.Options, s.event); err != nil {
			return err
		}
		if err := b.table(out, s, part, base); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "</main>\n<script>%s</script>\n<script>%s</script>\n</body>\n</html>\n", report.PageScript(), script)
	return nil
}

// notes writes what the profile lacks.
func (b *Browser) notes(out *bytes.Buffer) {
	notes := b.p.Losses.Notes()
	if step := b.p.Step(); step > 0 {
		var samples uint64
		for _, e := range b.p.Events {
			samples += e.Samples
		}
		notes = append(notes, fmt.Sprintf("%d samples are merged into %d: their times are rounded down to steps of %s s, and so are ranges of time",
			samples, len(b.p.Samples()), seconds(step)))
	}
	if cut := b.p.Cut(); cut > 0 {
		notes = append(notes, fmt.Sprintf("%d samples are left out, because there are too many different ones", cut))
	}
	for _, n := range notes {
		fmt.Fprintf(out, "<p class=\"note\">%s</p>\n", text(n))
	}
}

// form writes what can be selected.
func (b *Browser) form(out *bytes.Buffer, s *selection) {
	out.WriteString("<form id=\"select\" method=\"get\" action=\"/\">\n")
	option := func(value, title string, chosen bool) {
		selected := ""
		if chosen {
			selected = " selected"
		}
		fmt.Fprintf(out, `<option value="%s"%s>%s</option>`, text(value), selected, text(title))
	}
	if len(b.events) > 1 {
		out.WriteString(`<label>Event <select name="e">`)
		for _, e := range b.events {
			option(fmt.Sprint(e), fmt.Sprintf("%s (%d samples)", b.p.Events[e].Name, b.p.Events[e].Samples), e == s.event)
		}
		out.WriteString("</select></label>\n")
	}
	if processes := b.processes(); len(processes) > 1 || s.pid != nil {
		out.WriteString(`<label>Process <select name="pid">`)
		option("", "all", s.pid == nil)
		for _, t := range processes[:min(len(processes), maxTasks)] {
			option(fmt.Sprint(t.pid), fmt.Sprintf("%s %d (%d samples)", t.comm, t.pid, t.samples), s.pid != nil && t.pid == *s.pid)
		}
		out.WriteString("</select></label>\n")
	}
	if len(b.tasks) > 1 && b.p.Keys().Has(profile.TID) {
		out.WriteString(`<label>Thread <select name="tid">`)
		option("", "all", s.tid == nil)
		shown := 0
		for _, t := range b.tasks {
			if shown == maxTasks || !selects(s.pid, t.pid) {
				continue
			}
			option(fmt.Sprint(t.tid), fmt.Sprintf("%s %d (%d samples)", t.comm, t.tid, t.samples), s.tid != nil && t.tid == *s.tid)
			shown++
		}
		out.WriteString("</select></label>\n")
	}
	b.times(out, s)
	if b.Base != nil || b.length > 0 {
		out.WriteString(`<label>Compare with <select name="diff">`)
		option(noDiff, "nothing", s.diff == noDiff)
		if b.Base != nil {
			option(withBase, b.BaseName, s.diff == withBase)
		}
		if b.length > 0 {
			option(withTime, "another time", s.diff == withTime)
		}
		out.WriteString("</select></label>\n")
	}
	if b.length > 0 {
		b.rangeFields(out, "bfrom", "bto", "that is from", s.baseTime)
	}
	out.WriteString("<button>Show</button> <a href=\"/\">Show all</a>\n</form>\n")
}

// processes returns the processes, the one with the most samples first. Without the key PID there is only one.
func (b *Browser) processes() []task {
	var all []task
	at := map[int32]int{}
	for _, t := range b.tasks {
		i, known := at[t.pid]
		if !known {
			i = len(all)
			at[t.pid] = i
			all = append(all, task{comm: t.comm, pid: t.pid})
		}
		all[i].samples += t.samples
		if t.pid == t.tid {
			all[i].comm = t.comm
		}
	}
	return all
}

// rangeFields writes the two ends of a range of time.
func (b *Browser) rangeFields(out *bytes.Buffer, from, to, title string, t span) {
	first, last := "", ""
	if t.set {
		first, last = seconds(t.from), seconds(t.to)
	}
	fmt.Fprintf(out, `<span class="range"><label>%s <input name="%s" inputmode="decimal" size="9" value="%s" placeholder="0"></label> `+
		`<label>to <input name="%s" inputmode="decimal" size="9" value="%s" placeholder="%s"></label> s</span>`+"\n",
		title, from, first, to, last, seconds(b.length))
}

// times writes the histogram and the range of time.
func (b *Browser) times(out *bytes.Buffer, s *selection) {
	if b.length == 0 {
		out.WriteString("<p class=\"note\">These samples have no times, so no range of time can be selected.</p>\n")
		return
	}
	wanted := b.wants(s, span{})
	var counts [bins]uint64
	samples := b.p.Samples()
	for i := range samples {
		if wanted(&samples[i]) {
			counts[min(bins-1, (samples[i].Time-b.first)/(b.length/bins+1))] += samples[i].Count
		}
	}
	most := uint64(1)
	for _, n := range counts {
		most = max(most, n)
	}
	fmt.Fprintf(out, `<svg class="times" data-length="%s" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="samples over time; type a range below">`,
		seconds(b.length), bins, barTop)
	mark := func(class string, t span, shown bool) {
		x, width := 0.0, 0.0
		if t.set && shown {
			x, width = bins*float64(t.from)/float64(b.length), bins*float64(t.to-t.from)/float64(b.length)
		}
		fmt.Fprintf(out, `<rect class="%s" x="%.3f" y="0" width="%.3f" height="%d"/>`, class, x, width, barTop)
	}
	mark("chosen", s.time, true)
	mark("other", s.baseTime, s.diff == withTime)
	out.WriteString(`<path d="`)
	for i, n := range counts {
		if n > 0 {
			fmt.Fprintf(out, "M%d %dh1V%.2fh-1z", i, barTop, barTop-float64(barTop-1)*float64(n)/float64(most))
		}
	}
	fmt.Fprintf(out, "\"/></svg>\n<p class=\"axis\"><span>0 s</span><span>drag to select a time; with Shift, the time to compare with</span><span>%s s</span></p>\n",
		seconds(b.length))
	b.rangeFields(out, "from", "to", "Time from", s.time)
}

// table writes the table of functions.
func (b *Browser) table(out *bytes.Buffer, s *selection, part, base *profile.Profile) error {
	rows, all, err := report.Functions(part, b.Options, s.event)
	if err != nil {
		return err
	}
	type name struct{ module, function string }
	before := map[name]float64{}
	if base != nil {
		of := s.event
		for i, e := range base.Events {
			if base != b.p && s.diff == withBase && e.Name == b.p.Events[s.event].Name {
				of = i
			}
		}
		baseRows, baseAll, err := report.Functions(base, b.Options, of)
		if err != nil {
			return err
		}
		for _, r := range baseRows {
			before[name{r.Module, r.Name}] += share(r.Self, baseAll)
		}
	}
	out.WriteString("<h2>Functions</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>Self</th>")
	if base != nil {
		out.WriteString("<th>Change</th>")
	}
	out.WriteString("<th>With callees</th><th>Samples</th><th class=\"name\">Function</th><th class=\"name\">File</th></tr></thead>\n<tbody>\n")
	query := s.query()
	for _, r := range rows[:min(len(rows), maxRows)] {
		fmt.Fprintf(out, "<tr><td>%.2f %%</td>", share(r.Self, all))
		if base != nil {
			fmt.Fprintf(out, "<td>%+.2f %%</td>", share(r.Self, all)-before[name{r.Module, r.Name}])
		}
		fmt.Fprintf(out, "<td>%.2f %%</td><td>%d</td><td class=\"name\">", share(r.Total, all), r.Samples)
		if r.Function != 0 && !r.Inlined && r.Samples > 0 && b.Code != nil {
			fmt.Fprintf(out, `<a href="/function?f=%d&amp;%s">%s</a>`, r.Function, text(query), text(r.Name))
		} else {
			out.WriteString(text(r.Name))
		}
		fmt.Fprintf(out, "</td><td class=\"name\">%s</td></tr>\n", text(r.Module))
	}
	out.WriteString("</tbody>\n</table></div>\n")
	if rest := len(rows) - maxRows; rest > 0 {
		fmt.Fprintf(out, "<p class=\"note\">%d more functions are left out.</p>\n", rest)
	}
	if b.Code == nil {
		fmt.Fprintf(out, "<p class=\"note\">%s</p>\n", text(b.NoCode))
	}
	return nil
}

func share(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}
