package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"github.com/clipperhouse/displaywidth"
)

// These are styles of ECMA-48.
const (
	bold    = "\x1b[1m"
	reverse = "\x1b[7m"
	plain   = "\x1b[m"
)

// screen is what showScreen shows: an interactive top, or a report.
type screen interface {
	tea.Model

	// ended is called when the model has quit. It returns the screen to show again if the user has suspended bperf, otherwise nil.
	ended() (again screen, err error)
}

// screenSuspend is the message that the user wants to suspend bperf. A model that can be suspended then quits.
type screenSuspend struct{}

// framesPerSecond limits the screen updates, because each frame costs a little even without a change.
const framesPerSecond = 10

// showScreen shows a screen until a key, the context or an error ends it. messages are sent to the screen; nil if there are none. The
// terminal is restored afterwards, and while the process is stopped.
//
// Each suspension ends one tea.Program and begins another one. A program that releases the terminal and restores it (v2.0.10, v2.1.1) may
// never draw again: the goroutine that drew before stops the ticker of the one that draws afterwards, if it runs late.
func showScreen(ctx context.Context, s screen, messages <-chan tea.Msg) error {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	defer signal.Stop(stops)
	for ctx.Err() == nil {
		last, err := runScreen(ctx, s, messages, stops)
		if ctx.Err() != nil { // the terminal may be gone
			break
		}
		again, failed := last.ended()
		if err = errors.Join(err, failed); err != nil || again == nil {
			return err
		}
		s = again
		stopProcess()
	}
	return nil
}

// runScreen shows a screen until it ends or is suspended, and returns its last state.
func runScreen(ctx context.Context, s screen, messages <-chan tea.Msg, stops <-chan os.Signal) (screen, error) {
	p := tea.NewProgram(s, tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	showing, end := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			select {
			case m := <-messages:
				p.Send(m)
			case <-stops:
				p.Send(screenSuspend{})
			case <-showing.Done():
				p.Quit() // does nothing after the end
				return
			}
		}
	})
	last, err := p.Run()
	end()
	sender.Wait()
	if last, ok := last.(screen); ok {
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

// cut limits a line to the width.
func cut(line string, width int) string {
	line = strings.ReplaceAll(line, "\t", " ")
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// noteMark is in front of a note of annotate, behind empty columns.
const noteMark = " : # "

// foldNotes breaks notes of annotate that are wider than the screen between words: they can say why there is no code. Other lines are cut
// when they are drawn.
func foldNotes(lines []string, width int) []string {
	var folded []string
	for _, line := range lines {
		columns, note, is := strings.Cut(line, noteMark)
		if is = is && strings.TrimLeft(columns, " ") == ""; !is || displaywidth.String(line) <= width {
			folded = append(folded, line)
			continue
		}
		head := columns + noteMark
		part := head
		for word := range strings.FieldsSeq(note) {
			switch {
			case part == head:
				part += word
			case displaywidth.String(part)+1+displaywidth.String(word) <= width:
				part += " " + word
			default:
				folded, part = append(folded, part), head+word
			}
		}
		folded = append(folded, part)
	}
	return folded
}

// terminalWidth returns the number of columns of a terminal, and 0 for other files.
func terminalWidth(file any) int {
	f, ok := file.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return width
}

// padded appends blanks to a text up to the width.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-displaywidth.String(text)))
}

// hottest returns the index of the line with the largest share at its start, and false if all lines are without one or have 0.
func hottest(lines []string) (at int, any bool) {
	most := 0.0
	for i, l := range lines {
		first, _, _ := strings.Cut(strings.TrimLeft(l, " "), " ")
		if percent, err := strconv.ParseFloat(first, 64); err == nil && percent > most {
			most, at, any = percent, i, true
		}
	}
	return at, any
}
