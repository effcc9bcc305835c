package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/internal/top"
)

// topScreen is the state of an interactive top. Update changes it, and text draws it.
type topScreen struct {
	columns []top.Column
	topDetails

	width, height int
	latest, shown *top.Reading // nil until the first interval ends; they differ while paused
	paused        bool
	order         top.Order
	filter        string // part of names, in lower case
	typing        bool   // the user types the filter
	cursor        uint64 // ID of the selected row; 0 for the first row
	drill         *topDrill
	live          bool  // details of a row are read again after each interval
	help          bool  // the keys are shown
	over          bool  // all that was observed has ended
	suspended     bool  // the process shall stop until it is continued
	err           error // ends the program
}

// topDetails return the details of a row.
type topDetails struct {
	examine      func(id uint64) (string, error)
	instructions func(id uint64) (string, error) // with shares, as bperf annotate prints them; nil if rows are no functions
	past         func(id uint64) []string        // the last intervals, drawn; nil if only the row shows them
}

// topDrill is the detailed view of one row.
type topDrill struct {
	topDetail
	past  []string // above the lines
	lines []string // nil until they are read
	first int      // index of the first line on the screen
	moved bool     // first is where the user or an instruction with samples is
}

// topDetail is what to read of a row.
type topDetail struct {
	id   uint64
	code bool // its instructions
}

// These are messages of top, besides those of bubbletea.
type (
	topRead struct { // an interval has ended
		reading *top.Reading
		err     error
	}
	topExamined struct { // a row's details were read
		topDetail
		text string
		err  error
	}
)

// Init reads the details that a suspension kept from being read.
func (s topScreen) Init() tea.Cmd {
	if s.drill == nil || s.drill.lines != nil {
		return nil
	}
	return s.examineRow(s.drill.topDetail)
}

// examineRow returns a command that reads a row's details.
func (s topScreen) examineRow(d topDetail) tea.Cmd {
	examine := s.examine
	if d.code {
		examine = s.instructions
	}
	return func() tea.Msg {
		text, err := examine(d.id)
		return topExamined{d, text, err}
	}
}

// examined shows the details of a row. Of instructions, it first shows the one with the most samples.
func (s topScreen) examined(msg topExamined) topScreen {
	d := *s.drill
	d.lines = examinedLines(msg)
	lines := foldNotes(d.lines, s.width)
	if at, any := hottest(lines); any && d.code && !d.moved {
		room := s.drillRows()
		d.first, d.moved = max(0, min(at-room/2, len(lines)-room)), true
	}
	s.drill = &d
	return s
}

// Update handles a message.
func (s topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case topRead:
		if errors.Is(msg.err, io.EOF) {
			s.over = true
			return s, nil
		}
		if s.err = msg.err; s.err != nil {
			return s, tea.Quit
		}
		s.latest = msg.reading
		if s.paused {
			return s, nil
		}
		s.shown = s.latest
		if s.past != nil && s.drill != nil {
			d := *s.drill
			d.past = s.past(d.id)
			s.drill = &d
		}
		if s.live && s.drill != nil {
			return s, s.examineRow(s.drill.topDetail)
		}
	case topExamined:
		if s.drill != nil && s.drill.topDetail == msg.topDetail {
			return s.examined(msg), nil
		}
	case screenSuspend:
		if canStop() {
			s.suspended = true
			return s, tea.Quit
		}
	case tea.KeyPressMsg:
		return s.press(msg)
	}
	return s, nil
}

func examinedLines(msg topExamined) []string {
	if msg.err == nil {
		return strings.Split(strings.TrimSuffix(msg.text, "\n"), "\n")
	}
	lines := strings.Split(msg.err.Error(), "\n")
	for i, l := range lines {
		lines[i] = printable.Text(l)
	}
	return lines
}

// press handles keys that mean the same in all views, and passes on the others.
func (s topScreen) press(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "ctrl+c":
		return s, tea.Quit
	case "ctrl+z":
		return s, func() tea.Msg { return screenSuspend{} }
	}
	switch {
	case s.typing:
		return s.typeFilter(key), nil
	case key.String() == "q":
		return s, tea.Quit
	case s.help, key.String() == "?":
		s.help = !s.help
		return s, nil
	case key.String() == "space":
		s.paused = !s.paused
		s.shown = s.latest
		return s, nil
	case s.drill != nil && (key.String() != "a" || s.drill.code):
		return s.pressDrilled(key.String()), nil
	}
	return s.pressList(key.String())
}

// typeFilter changes the filter by a key.
func (s topScreen) typeFilter(key tea.KeyPressMsg) topScreen {
	switch key.String() {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "ctrl+u":
		s.filter = ""
	case "backspace":
		if letters := []rune(s.filter); len(letters) > 0 {
			s.filter = string(letters[:len(letters)-1])
		}
	default:
		if !strings.ContainsFunc(key.Text, unicode.IsControl) {
			s.filter += strings.ToLower(key.Text)
		}
	}
	return s
}

func (s topScreen) pressList(key string) (tea.Model, tea.Cmd) {
	if i := slices.IndexFunc(s.columns, func(c top.Column) bool { return c.Key == key }); i >= 0 {
		s.order = top.Order{Column: i, Turned: i == s.order.Column && !s.order.Turned}
		return s, nil
	}
	switch key {
	case "/":
		s.typing = true
	case "esc":
		s.filter = ""
	case "enter", "a":
		if s.instructions == nil && key == "a" {
			break
		}
		detail := topDetail{s.chosen(), key == "a"}
		if s.drill != nil {
			detail.id = s.drill.id
		}
		if detail.id != 0 {
			s.drill = &topDrill{topDetail: detail}
			if s.past != nil {
				s.drill.past = s.past(detail.id)
			}
			return s, s.examineRow(detail)
		}
	default:
		rows := s.rows()
		row := moved(key, s.row(rows), s.page(), len(rows))
		s.cursor = 0
		if row > 0 {
			s.cursor = rows[row].ID
		}
	}
	return s, nil
}

func (s topScreen) pressDrilled(key string) topScreen {
	switch key {
	case "esc", "left", "backspace", "enter":
		s.drill = nil
		return s
	}
	d, room := *s.drill, s.drillRows()
	d.first, d.moved = moved(key, d.first, room, len(foldNotes(d.lines, s.width))-room+1), true
	s.drill = &d
	return s
}

// rows returns the rows that match the filter, in order.
func (s topScreen) rows() []top.Row {
	if s.shown == nil {
		return nil
	}
	var rows []top.Row
	for _, r := range s.shown.Rows {
		if strings.Contains(strings.ToLower(r.Name), s.filter) {
			rows = append(rows, r)
		}
	}
	s.order.Sort(s.columns, rows)
	return rows
}

// row returns the index of the selected row, or 0 if it is not in rows.
func (s topScreen) row(rows []top.Row) int {
	return max(0, slices.IndexFunc(rows, func(r top.Row) bool { return r.ID == s.cursor }))
}

// chosen returns the ID of the row at the cursor, or 0 if there are no rows.
func (s topScreen) chosen() uint64 {
	rows := s.rows()
	if len(rows) == 0 {
		return 0
	}
	return rows[s.row(rows)].ID
}

// examineProgram returns the distribution of a program's runs, and the program as `prog show` prints it.
func examineProgram(id uint64, runs []top.Distribution) (string, error) {
	selector, err := bpfprog.Parse(decimal(id))
	if err != nil {
		return "", err
	}
	list, err := bpfprog.List(selector, 0, true)
	if err != nil {
		return "", err
	}
	shown, err := readCode(list, "")
	if err != nil {
		return "", err
	}
	if len(shown) == 0 {
		return "", fmt.Errorf("BPF program %d is not loaded any more", id)
	}
	text := distributionsText(runs)
	var b strings.Builder
	err = printProgShow(&b, shown)
	return text + b.String(), err
}

// distributionsText draws the distribution of each event over single runs.
func distributionsText(runs []top.Distribution) string {
	var b strings.Builder
	for _, d := range runs {
		heading := d.Event.Name + " per run"
		if d.Event.Unit != "" {
			heading += ", " + d.Event.Unit
		}
		stat.WriteHistogram(&b, printable.Text(heading), &d.Runs, d.Event.Scale)
	}
	if b.Len() == 0 {
		return ""
	}
	return strings.TrimPrefix(b.String(), "\n") + "\n"
}

// showTop shows a screen, and a reading in it at the end of each interval.
func showTop(ctx context.Context, s topScreen, source top.Source, interval time.Duration) error {
	readings := make(chan tea.Msg)
	reading, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { readTop(reading, source, interval, readings) })
	defer reader.Wait()
	defer cancel()
	return showScreen(ctx, s, readings)
}

// ended implements screen.
func (s topScreen) ended() (again screen, err error) {
	if !s.suspended {
		return nil, s.err
	}
	s.suspended = false
	return s, s.err
}

// firstInterval limits the first interval, so that the screen is not empty for long.
const firstInterval = time.Second

// readTop sends a reading at the end of each interval, until the context is done.
func readTop(ctx context.Context, source top.Source, interval time.Duration, readings chan<- tea.Msg) {
	for wait := min(interval, firstInterval); ; wait = interval {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		r, err := source.Next(ctx)
		select {
		case readings <- topRead{r, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
