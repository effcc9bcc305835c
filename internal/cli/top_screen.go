package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	examine func(id uint64) (string, error)

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

// topDrill is the detailed view of one row.
type topDrill struct {
	id    uint64
	lines []string // nil until they are read
	first int      // index of the first line on the screen
}

// These are messages of top, besides those of bubbletea.
type (
	topRead struct { // an interval has ended
		reading *top.Reading
		err     error
	}
	topExamined struct { // a row's details were read
		id   uint64
		text string
		err  error
	}
	topSuspend struct{} // the user wants to suspend bperf
)

// Init reads the details that a suspension kept from being read.
func (s topScreen) Init() tea.Cmd {
	if s.drill == nil || s.drill.lines != nil {
		return nil
	}
	return s.examineRow(s.drill.id)
}

// examineRow returns a command that reads a row's details.
func (s topScreen) examineRow(id uint64) tea.Cmd {
	return func() tea.Msg {
		text, err := s.examine(id)
		return topExamined{id, text, err}
	}
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
		if s.live && s.drill != nil {
			return s, s.examineRow(s.drill.id)
		}
	case topExamined:
		if s.drill != nil && s.drill.id == msg.id {
			s.drill = &topDrill{id: msg.id, lines: examinedLines(msg), first: s.drill.first}
		}
	case topSuspend:
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
		return s, func() tea.Msg { return topSuspend{} }
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
	case s.drill != nil:
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
			return s, s.examineRow(id)
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

// moved returns the row that key moves the cursor to. page is the number of visible rows.
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

// framesPerSecond limits the screen updates, because each frame costs a little even without a change.
const framesPerSecond = 20

// showTop shows a screen until a key, the context or an error ends it. The terminal is restored afterwards, and while the process is stopped.
//
// Each suspension ends one tea.Program and begins another one. A program that releases the terminal and restores it (v2.0.10, v2.1.1) may
// never draw again: the goroutine that drew before stops the ticker of the one that draws afterwards, if it runs late.
func showTop(ctx context.Context, s topScreen, source top.Source, interval time.Duration) error {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	defer signal.Stop(stops)
	readings := make(chan topRead)
	reading, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { readTop(reading, source, interval, readings) })
	defer reader.Wait()
	defer cancel()
	for ctx.Err() == nil {
		var err error
		if s, err = s.show(ctx, readings, stops); ctx.Err() != nil { // the terminal may be gone
			break
		}
		if err = errors.Join(err, s.err); err != nil || !s.suspended {
			return err
		}
		s.suspended = false
		stopProcess()
	}
	return nil
}

// firstInterval limits the first interval, so that the screen is not empty for long.
const firstInterval = time.Second

// readTop sends a reading at the end of each interval, until the context is done.
func readTop(ctx context.Context, source top.Source, interval time.Duration, readings chan<- topRead) {
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

// show shows the screen until it ends or is suspended, and returns its last state.
func (s topScreen) show(ctx context.Context, readings <-chan topRead, stops <-chan os.Signal) (topScreen, error) {
	p := tea.NewProgram(s, tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	showing, end := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			select {
			case r := <-readings:
				p.Send(r)
			case <-stops:
				p.Send(topSuspend{})
			case <-showing.Done():
				p.Quit() // does nothing after the end
				return
			}
		}
	})
	last, err := p.Run()
	end()
	sender.Wait()
	if last, ok := last.(topScreen); ok {
		s = last
	}
	return s, err
}

// canStop reports whether somebody could continue this process if it stopped. Nobody can continue a session leader's process group: it has
// no shell with job control (setpgid(2), orphaned process group).
func canStop() bool {
	session, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0) // cannot fail for this process
	return int(session) != syscall.Getpgrp()
}

// stopProcess stops the process group until it is continued. It sends SIGSTOP because Go ignores SIGTSTP for good once it was caught.
func stopProcess() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		<-continued // needed if another thread was stopped first
	}
}
