package cli

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/clipperhouse/displaywidth"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/report"
)

// These are the numbers of lines without rows. At the top: samples, state and titles. At the bottom: two lines of keys.
const (
	reportHeads = 3
	reportFoot  = 2
)

// reportFootKeys are the keys at the bottom of the screen.
const reportFootKeys = "enter → open  ← close  e c all of it  / search  n N next  a annotate  ? all keys\n" +
	"t thread  d file  esc undo  s sort  tab event  P write to a file  q quit"

// reportKeys is the text of the key ?.
const reportKeys = `up down k j       move by a line
pgup pgdn         move by a page
home end g G      move to the first or the last line
enter             open or close the call tree below a line
→                 open it
←                 close it, or move to the line that it is below
e c               open or close all of a row's call tree
/                 show only rows with a text in their keys
                  (if there are none: rows with it in their call trees)
n N               move to the next or previous line with that text, even if it
                  is in a closed call tree
a                 annotate: show the function's instructions and source lines
t                 show only the samples of the row's thread, process or threads
                  with its name: what the keys tid, tgid or comm distinguish
d                 show only rows of the row's file
esc               undo /, or the last t or d
tab E             show the next event or group; shift-tab: the previous one
s                 sort by other keys, as with --sort
P                 write the list to a new file, perf.hist.N
ctrl-z            suspend bperf
q                 quit; here and in an annotated function: back to the list`

// View returns a view that fills the terminal.
func (s *reportScreen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

// tall reports whether the screen has room for more than rows.
func (s *reportScreen) tall() bool { return s.height > reportHeads+reportFoot }

// room returns the number of visible lines of the list.
func (s *reportScreen) room() int {
	if s.tall() {
		return s.height - reportHeads - reportFoot
	}
	return max(1, s.height)
}

// pageRoom returns the number of visible lines of a page.
func (s *reportScreen) pageRoom() int {
	if s.tall() {
		return s.height - reportHeads
	}
	return max(1, s.height)
}

// text returns the screen: at most height lines, each at most width wide.
func (s *reportScreen) text() string {
	switch {
	case s.width <= 0 || s.height <= 0:
		return ""
	case s.page != nil:
		return strings.Join(s.pageLines(), "\n")
	}
	l := newReportLayout(s.table, s.width)
	var lines []string
	if s.tall() {
		lines = append(lines, l.limit(s.head()), l.limit(s.state()), bold+padded(l.titles(), s.width)+plain)
	}
	last := min(len(s.lines), s.first+s.room())
	for i, n := range s.lines[s.first:last] {
		line := l.line(n)
		if s.first+i == s.cursor {
			line = reverse + padded(line, s.width) + plain
		}
		lines = append(lines, line)
	}
	if len(s.lines) == 0 {
		lines = append(lines, l.limit(s.whyEmpty()))
	}
	if s.tall() {
		lines = append(lines, make([]string, max(0, s.height-reportFoot-len(lines)))...)
		for _, keys := range strings.Split(reportFootKeys, "\n") {
			lines = append(lines, l.limit(keys))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *reportScreen) pageLines() []string {
	p := s.page
	var lines []string
	if s.tall() {
		keys := "up down pgup pgdn home end scroll  q back"
		if s.note != "" {
			keys = s.note
		}
		lines = append(lines, bold+padded(cut(p.title, s.width), s.width)+plain, cut(keys, s.width), "")
	}
	text := foldNotes(p.lines, s.width)
	first := max(0, min(p.first, len(text)-s.pageRoom()))
	for _, l := range text[first:min(len(text), first+s.pageRoom())] {
		lines = append(lines, cut(l, s.width))
	}
	return lines
}

func (s *reportScreen) whyEmpty() string {
	if s.filter != "" {
		return "No name has that in it."
	}
	return "No row reaches the limit of --percent-limit, or is left by the filters."
}

// head returns what the samples are of, how many there are, and how many are missing.
func (s *reportScreen) head() string {
	t := s.table
	text := fmt.Sprintf("Samples: %d of '%s', event count (approx.): %d", t.Samples, t.Events, t.Value)
	if t.Left < t.Samples {
		text = fmt.Sprintf("Samples: %d of %d of '%s', event count (approx.): %d", t.Left, t.Samples, t.Events, t.Value)
	}
	lost := &s.walk.Profile().Losses
	if lost.Samples > 0 {
		text += fmt.Sprintf(", lost: %d", lost.Samples)
	}
	if lost.MissedEstimate > 0 {
		text += fmt.Sprintf(", missed: about %d", lost.MissedEstimate)
	}
	if s.walk.Tables() > 1 {
		text = fmt.Sprintf("%d/%d ", s.number+1, s.walk.Tables()) + text
	}
	return text
}

// state returns what the user types, what bperf does or has done, or else what is shown.
func (s *reportScreen) state() string {
	switch {
	case s.prompt != nil && s.prompt.sort:
		return "sort by (now " + printable.Text(strings.Join(s.options.SortKeys(), ",")) + "): " + printable.Text(s.prompt.text) + "_"
	case s.prompt != nil:
		return "names with: " + printable.Text(s.prompt.text) + "_"
	case s.note != "":
		return printable.Text(s.note)
	case s.job != nil:
		return printable.Text(s.job.what) + " …"
	}
	return s.shows()
}

// shows returns what the list shows: its keys, filters and the selected line.
func (s *reportScreen) shows() string {
	text := "sorted by " + printable.Text(strings.Join(s.options.SortKeys(), ","))
	if len(s.options.Fields) > 0 {
		text = "columns " + printable.Text(strings.Join(s.options.Fields, ","))
	}
	for _, z := range s.zooms {
		text += "; only " + z.String()
	}
	if s.filter != "" {
		text += "; names with: " + printable.Text(s.filter)
	}
	if len(s.lines) > 0 {
		text += fmt.Sprintf("; line %d of %d", s.cursor+1, len(s.lines))
	}
	return text
}

// plainText returns the list with all of its lines, as wide as needed.
func (s *reportScreen) plainText() string {
	l := newReportLayout(s.table, 0)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# %s\n#\n#%s\n", s.head(), s.shows(), strings.TrimRight(l.titles()[1:], " "))
	for _, n := range s.lines {
		b.WriteString(strings.TrimRight(l.line(n), " ") + "\n")
	}
	return b.String()
}

// reportLayout draws the lines of a list.
type reportLayout struct {
	table  *report.WalkTable
	width  int   // of the screen; 0 for as wide as needed
	shown  []int // the columns that fit, by their indexes in the table
	widths []int // of shown
}

// These are widths.
const (
	reportMark  = 2 // the mark of what can be opened
	leastName   = 8 // a column of names
	columnSpace = 2
)

// newReportLayout chooses the columns of a list and their widths. If they do not fit, the widest names are cut first; then columns are left
// out, but never cut numbers.
func newReportLayout(t *report.WalkTable, width int) *reportLayout {
	l := &reportLayout{table: t, width: width}
	for i := range t.Columns {
		l.shown = append(l.shown, i)
	}
	for width > 0 && len(l.shown) > 1 && l.needs(leastName) > width {
		at := l.leastImportant()
		l.shown = slices.Delete(l.shown, at, at+1)
	}
	widest := 0
	for _, i := range l.shown {
		widest = max(widest, t.Columns[i].Width)
	}
	for width > 0 && widest > leastName && l.needs(widest) > width {
		widest--
	}
	for _, i := range l.shown {
		l.widths = append(l.widths, l.columnWidth(i, widest))
	}
	return l
}

// columnWidth returns the width of a column if names are cut to the widest.
func (l *reportLayout) columnWidth(column, widest int) int {
	if c := l.table.Columns[column]; c.Fixed || c.Width <= widest {
		return c.Width
	}
	return widest
}

// needs returns the width of the columns that are shown.
func (l *reportLayout) needs(widest int) int {
	width := reportMark - columnSpace
	for _, i := range l.shown {
		width += l.columnWidth(i, widest) + columnSpace
	}
	return width
}

// leastImportant returns the index in shown of the column to leave out next: the last value but the first, then the first key but the last.
func (l *reportLayout) leastImportant() int {
	for at, i := range slices.Backward(l.shown) {
		if at > 0 && l.table.Columns[i].Value {
			return at
		}
	}
	return min(1, len(l.shown)-1)
}

// limit limits a line of words to the width.
func (l *reportLayout) limit(line string) string {
	if l.width == 0 {
		return line
	}
	return cut(line, l.width)
}

func (l *reportLayout) titles() string {
	line := strings.Repeat(" ", reportMark)
	for at, i := range l.shown {
		if at > 0 {
			line += strings.Repeat(" ", columnSpace)
		}
		c := l.table.Columns[i]
		title := printable.Middle(strings.TrimSpace(c.Title), l.widths[at])
		if c.Right {
			title = strings.Repeat(" ", max(0, l.widths[at]-displaywidth.String(title))) + title
		}
		line += padded(title, l.widths[at])
	}
	return l.limit(line)
}

// line returns a row, or a function in its call tree.
func (l *reportLayout) line(n *reportNode) string {
	mark := "  "
	switch {
	case n.open:
		mark = "- "
	case n.leads():
		mark = "+ "
	}
	if n.row == nil {
		return l.functionLine(n, mark)
	}
	line := mark
	cells := n.row.Cells(l.table.Columns)
	for at, i := range l.shown {
		if at > 0 {
			line += strings.Repeat(" ", columnSpace)
		}
		cell := cells[i]
		if !l.table.Columns[i].Fixed {
			cell = printable.Middle(strings.TrimRight(cell, " "), l.widths[at])
		}
		line += padded(cell, l.widths[at])
	}
	return l.limit(line)
}

// functionLine returns a function of a call tree, further to the right the deeper it is in the tree.
func (l *reportLayout) functionLine(n *reportNode, mark string) string {
	indent := 2 + 2*n.depth
	if l.width > 0 {
		indent = min(indent, l.width/2)
	}
	line := strings.Repeat(" ", indent) + mark
	if n.call != nil {
		line += n.call.Value + " "
	}
	name := n.function.Name
	if l.width > 0 {
		name = printable.Middle(name, max(1, l.width-displaywidth.String(line)))
	}
	return l.limit(line + name)
}
