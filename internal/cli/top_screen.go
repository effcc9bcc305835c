package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/internal/top"
)

// topScreen is what an interactive top knows. Update changes it, text draws it.
type topScreen struct {
	source   top.Source
	columns  []top.Column
	examine  func(id uint64) (string, error)
	interval time.Duration

	width, height int
	latest, shown *top.Reading // nil before the first interval is over; they differ while it is paused
	paused        bool
	order         top.Order
	filter        string // part of names, in small letters
	typing        bool   // the filter
	cursor        uint64 // ID of the row that is chosen; 0 for the one that is on top
	drill         *topDrill
	err           error // that ends it
}

// topDrill is a look into one row.
type topDrill struct {
	id    uint64
	lines []string // nil while they are read
	first int      // of them that is on the screen
}

// Messages besides those of bubbletea.
type (
	topRead struct { // an interval is over
		reading *top.Reading
		err     error
	}
	topExamined struct { // a row was looked into
		id   uint64
		text string
		err  error
	}
)

// firstInterval is the longest that one looks at an empty screen.
const firstInterval = time.Second

// Init begins the first interval.
func (s topScreen) Init() tea.Cmd { return s.read(min(s.interval, firstInterval)) }

// read reads after an interval.
func (s topScreen) read(interval time.Duration) tea.Cmd {
	return tea.Tick(interval, func(time.Time) tea.Msg {
		r, err := s.source.Next()
		return topRead{r, err}
	})
}

// Update is called for all that happens.
func (s topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case topRead:
		if s.err = msg.err; s.err != nil {
			return s, tea.Quit
		}
		s.latest = msg.reading
		if !s.paused {
			s.shown = s.latest
		}
		return s, s.read(s.interval)
	case topExamined:
		if s.drill != nil && s.drill.id == msg.id {
			s.drill = &topDrill{id: msg.id, lines: examinedLines(msg)}
		}
	case tea.KeyPressMsg:
		return s.press(msg)
	}
	return s, nil
}

func examinedLines(msg topExamined) []string {
	if msg.err != nil {
		return strings.Split(printableLines(msg.err.Error()), "\n")
	}
	return strings.Split(strings.TrimSuffix(msg.text, "\n"), "\n")
}

// printableLines keeps line ends.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = printable.Text(l)
	}
	return strings.Join(lines, "\n")
}

// press is for keys that mean the same everywhere, and hands on others.
func (s topScreen) press(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "ctrl+c":
		return s, tea.Quit
	case "ctrl+z":
		return s, tea.Suspend
	}
	switch {
	case s.typing:
		return s.typeFilter(key), nil
	case key.String() == "q":
		return s, tea.Quit
	case key.String() == "space":
		s.paused = !s.paused
		s.shown = s.latest
		return s, nil
	case s.drill != nil:
		return s.pressDrilled(key.String()), nil
	}
	return s.pressList(key.String())
}

// typeFilter changes the filter.
func (s topScreen) typeFilter(key tea.KeyPressMsg) topScreen {
	switch key.String() {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
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
	case "enter":
		if id := s.chosen(); id != 0 {
			s.drill = &topDrill{id: id}
			return s, func() tea.Msg {
				text, err := s.examine(id)
				return topExamined{id, text, err}
			}
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
	d.first = moved(key, d.first, room, len(d.lines)-room+1)
	s.drill = &d
	return s
}

// moved is where a key leads to from a row, of so many, of which a page is seen.
func moved(key string, row, page, rows int) int {
	switch key {
	case "up", "k":
		row--
	case "down", "j":
		row++
	case "pgup":
		row -= page
	case "pgdown":
		row += page
	case "home", "g":
		row = 0
	case "end", "G":
		row = rows - 1
	}
	return max(0, min(row, rows-1))
}

// rows are those that the filter lets through, in order.
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

// row is that which is chosen; the first, if it is not there.
func (s topScreen) row(rows []top.Row) int {
	return max(0, slices.IndexFunc(rows, func(r top.Row) bool { return r.ID == s.cursor }))
}

// chosen is the ID of the row that the cursor is at; 0 if there is none.
func (s topScreen) chosen() uint64 {
	rows := s.rows()
	if len(rows) == 0 {
		return 0
	}
	return rows[s.row(rows)].ID
}

// examineProgram shows how the runs of a program are distributed, and the program as `prog show` does.
func examineProgram(id uint64, runs []top.Distribution) (string, error) {
	selector, err := bpfprog.Parse(decimal(id))
	if err != nil {
		return "", err
	}
	list, err := bpfprog.List(selector, 0, true)
	if err != nil {
		return "", err
	}
	shown, err := readCode(list)
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

// distributionsText draws what each event counted in single runs.
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

// framesPerSecond is how often the screen may change. Each costs a little, also if it did not.
const framesPerSecond = 20

// showTop shows a screen until a key, the context or an error ends it. What it has changed of the terminal it puts back.
func showTop(ctx context.Context, s topScreen) error {
	var p *tea.Program
	filter := func(_ tea.Model, msg tea.Msg) tea.Msg {
		if _, ok := msg.(tea.SuspendMsg); ok {
			return suspendTop(p)
		}
		return msg
	}
	p = tea.NewProgram(s, tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond), tea.WithFilter(filter))
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	defer signal.Stop(stops)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-stops:
				p.Send(tea.SuspendMsg{})
			case <-ctx.Done():
				p.Quit()
				return
			case <-ended:
				return
			}
		}
	}()
	last, err := p.Run()
	if ctx.Err() != nil { // the terminal may be gone
		return nil
	}
	if s, ok := last.(topScreen); ok {
		err = errors.Join(err, s.err)
	}
	return err
}

// suspendTop stops the process group, with the terminal as it was before, until it is continued. bubbletea's own way is SIGTSTP, but
// one that was caught once is ignored by Go ever after, and it waits forever where nobody could continue it: the kernel does not stop
// a group without a shell by that (setpgid(2), orphaned process group). Such a group is that of the leader of the session.
func suspendTop(p *tea.Program) tea.Msg {
	session, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0) // it cannot fail for this process
	if int(session) == syscall.Getpgrp() || p.ReleaseTerminal() != nil {
		return nil
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		<-continued // another thread may have been stopped first
	}
	if err := p.RestoreTerminal(); err != nil {
		return topRead{err: fmt.Errorf("take the terminal again: %w", err)}
	}
	return tea.ClearScreen()
}
