package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/top"
)

// These are the numbers of lines without rows. At the top: total, cost, state and titles. At the bottom: two lines of keys.
const (
	headLines = 4
	keyLines  = 2
)

// View returns a view that fills the terminal.
func (s topScreen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

// text returns the screen: at most height lines, each at most width wide.
func (s topScreen) text() string {
	if s.width <= 0 || s.height <= 0 {
		return ""
	}
	lines, keys := s.listLines(), s.listKeys()
	switch {
	case s.help:
		lines, keys = s.helpLines(), "any key back  q quit"
	case s.drill != nil:
		lines, keys = s.drillLines(), "space pause  up down pgup pgdn home end scroll  esc back  q quit"
		if !s.drill.code {
			keys = s.codeKey() + keys
		}
	}
	lines = lines[:min(len(lines), s.height)]
	if s.height >= headLines+keyLines+1 {
		room := s.height - keyLines
		lines = append(lines[:min(len(lines), room)], make([]string, max(0, room-len(lines)))...)
		for _, l := range slices.Concat(strings.Split(keys, "\n"), []string{""})[:keyLines] {
			lines = append(lines, cut(l, s.width))
		}
	}
	return strings.Join(lines, "\n")
}

// page returns the number of visible rows.
func (s topScreen) page() int { return s.room(headLines) }

// drillRows returns the number of visible lines of a detailed view.
func (s topScreen) drillRows() int { return s.room(headLines + 2 + len(s.drill.past)) }

func (s topScreen) room(head int) int {
	if s.height >= headLines+keyLines+1 {
		head += keyLines
	}
	return max(1, s.height-head)
}

func (s topScreen) listKeys() string {
	text := "sort:"
	for _, c := range s.columns {
		if c.Key != "" {
			text += " " + c.Key + " " + c.Name + " "
		}
	}
	return text + " (again: turn)\n" +
		"/ filter  enter details  " + s.codeKey() + "space pause  ? keys  q quit  up down pgup pgdn home end"
}

func (s topScreen) codeKey() string {
	if s.instructions == nil {
		return ""
	}
	return "a instructions  "
}

// helpLines describes the keys.
func (s topScreen) helpLines() []string {
	lines := []string{s.style(bold, "Keys of bperf top"), ""}
	add := func(key, text string) { lines = append(lines, cut(fmt.Sprintf("%-16s %s", key, text), s.width)) }
	for _, c := range s.columns {
		if c.Key != "" {
			add(c.Key, "sort by "+c.Title+"; again: the other way round")
		}
	}
	add("/", "show only names with a text: enter ends typing, esc shows all")
	add("space", "pause, and go on")
	add("enter", "show details of the row")
	if s.instructions != nil {
		add("a", "show the function's instructions with shares of its samples")
	}
	add("up down, k j", "choose a row")
	add("pgup pgdown", "choose a row of another page")
	add("home end, g G", "choose the first or the last row")
	add("esc", "back")
	add("q, ctrl+c", "end")
	add("ctrl+z", "stop until the shell continues it")
	return lines
}

// headText returns the lines above the titles.
func (s topScreen) headText() []string {
	if s.shown == nil {
		return []string{cut("bperf top: counting the first interval …", s.width), "", ""}
	}
	return []string{cut(printable.Text(s.shown.Total), s.width), cut(printable.Text(s.shown.Cost), s.width), cut(s.state(), s.width)}
}

// state returns the time, the interval, and whether the screen is paused or filtered.
func (s topScreen) state() string {
	text := fmt.Sprintf("%s, %.3f s", seconds(s.shown.Time), s.shown.Window.Seconds())
	switch {
	case s.typing: // first, so that narrow screens show what the user types
		text += "; names with: " + printable.Text(s.filter) + "_"
	case s.filter != "":
		text += "; names with: " + printable.Text(s.filter) + " (esc: all)"
	}
	if s.paused {
		text += "; paused, space goes on"
	}
	if s.over {
		text += "; all that was sampled has ended"
	}
	return text
}

func (s topScreen) listLines() []string {
	lines := append(s.headText(), s.style(bold, s.titles()))
	all := s.rows()
	if s.shown != nil && len(s.shown.Rows) > 0 && len(all) == 0 {
		return append(lines, cut("No name has that in it.", s.width))
	}
	row, page := s.row(all), s.page()
	first := row / page * page
	for i, r := range all[first:min(first+page, len(all))] {
		line := s.line(r)
		if first+i == row {
			line = s.style(reverse, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// drillLines returns a row's line, and the part of its details that is scrolled to.
func (s topScreen) drillLines() []string {
	lines := append(s.headText(), s.style(bold, s.titles()))
	found := "it did nothing, or is not there any more"
	if s.shown != nil {
		for _, r := range s.shown.Rows {
			if r.ID == s.drill.id {
				found = s.line(r)
			}
		}
	}
	lines = append(lines, cut(found, s.width))
	for _, l := range s.drill.past {
		lines = append(lines, cut(l, s.width))
	}
	lines = append(lines, "")
	if s.drill.lines == nil {
		return append(lines, cut("reading …", s.width))
	}
	rows := s.drillRows()
	text := foldNotes(s.drill.lines, s.width)
	first := max(0, min(s.drill.first, len(text)-rows))
	for _, l := range text[first:min(first+rows, len(text))] {
		lines = append(lines, cut(l, s.width))
	}
	return lines
}

// titles marks the sort column with an arrow: down if the largest amount, or the first word, is at the top.
func (s topScreen) titles() string {
	return s.join(func(i int) string {
		switch {
		case i != s.order.Column:
			return s.columns[i].Title
		case s.order.Turned:
			return "↑" + s.columns[i].Title
		}
		return "↓" + s.columns[i].Title
	})
}

func (s topScreen) line(r top.Row) string {
	return s.join(func(i int) string { return printable.Text(r.Cells[i].Text) })
}

// join joins the columns that fit the width.
func (s topScreen) join(text func(i int) string) string {
	var fields []string
	room := s.width
	for i, c := range s.columns {
		if s.width < c.From {
			continue
		}
		width := c.Width
		if width == 0 {
			width = max(1, room)
		}
		field := text(i)
		switch {
		case c.Kind == top.Word:
			field = printable.Middle(field, width)
		case utf8.RuneCountInString(field) > width:
			field = cut(field, width)
		}
		switch {
		case alignmentOf(c) == 'r':
			field = fmt.Sprintf("%*s", c.Width, field)
		case c.Width > 0:
			field = fmt.Sprintf("%-*s", c.Width, field)
		}
		fields = append(fields, field)
		room -= width + len(columnGap)
	}
	return cut(strings.Join(fields, columnGap), s.width)
}

// columnGap separates columns.
const columnGap = "  "

// style draws a line as wide as the terminal.
func (s topScreen) style(style, line string) string {
	return style + line + strings.Repeat(" ", max(0, s.width-utf8.RuneCountInString(line))) + plain
}
