package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// tmux is a terminal of tmux, whose screen can be read, with bperf in it.
type tmux struct {
	socket        string
	columns, rows int
}

// tmuxSettings leave the whole terminal to the command, and keep the terminal after the command has ended.
const tmuxSettings = "set -g status off\nset -g remain-on-exit on\nset -g escape-time 0\n"

const (
	tmuxPatience = 2 * time.Minute // only ends a hang
	tmuxPause    = 20 * time.Millisecond
)

// newTmux runs bperf in a terminal of this size, in a directory of its own. variables are added to its environment.
func newTmux(t *testing.T, columns, rows int, variables []string, args ...string) *tmux {
	t.Helper()
	require.Tools(t, "tmux")
	dir, err := os.MkdirTemp("", "tmux") // t.TempDir can be too long for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &tmux{socket: filepath.Join(dir, "socket"), columns: columns, rows: rows}
	settings := filepath.Join(dir, "settings")
	if err := os.WriteFile(settings, []byte(tmuxSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	start := m.command("-f", settings, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "-c", dir, "--", self)
	start.Args = append(start.Args, args...)
	start.Env = append(bperf().Env, variables...)
	t.Cleanup(func() { m.command("kill-server").Run() }) // it has ended if it could not start
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", start.Args, err, out)
	}
	return m
}

// command returns a command of the terminal's server.
func (m *tmux) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-u", "-S", m.socket}, args...)...)
}

func (m *tmux) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// tmuxKeys are tmux's names of the keys that press accepts in angle brackets.
var tmuxKeys = map[string]string{"enter": "Enter", "esc": "Escape", "space": "Space", "down": "Down", "end": "End", "backspace": "BSpace",
	"ctrl+u": "C-u"}

// press presses keys, given as for typed.
func (m *tmux) press(t *testing.T, keys string) {
	t.Helper()
	for keys != "" {
		key, rest, special := strings.Cut(strings.TrimPrefix(keys, "<"), ">")
		if special = special && keys[0] == '<'; special {
			m.run(t, "send-keys", tmuxKeys[key])
		} else {
			key, rest = keys[:1], keys[1:]
			m.run(t, "send-keys", "-l", key)
		}
		keys = rest
	}
}

// screen returns the lines of the terminal, with the styles of their text as in the golden files of other screens.
func (m *tmux) screen(t *testing.T) string {
	t.Helper()
	return styled(m.run(t, "capture-pane", "-p", "-e"))
}

var (
	tmuxStyle  = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	tmuxStyles = map[string]string{"0": "", "39": "", "49": "", "1": "bold", "7": "reverse"} // 39 and 49 are the usual colours
)

// styled shows each line's styles. tmux writes a style only where it begins, which can be many lines before. Styles of blanks at the end of
// a line are left out: tmux drops some of these blanks, depending on how they came there.
func styled(screen string) string {
	var b strings.Builder
	style := ""
	for line := range strings.Lines(screen) {
		shown, at := "", 0
		show := func(text string) {
			visible := strings.Trim(text, " ") != "" || style == "reverse" || shown == "reverse" // bold blanks look like others
			if text != "" && style != shown && visible {
				fmt.Fprintf(&b, "«%s»", style)
				shown = style
			}
			b.WriteString(text)
		}
		line = strings.TrimRight(line, " \n")
		for _, found := range tmuxStyle.FindAllStringSubmatchIndex(line, -1) {
			show(line[at:found[0]])
			at = found[1]
			for _, number := range strings.Split(line[found[2]:found[3]], ";") {
				if name, known := tmuxStyles[number]; !known {
					style += "?" + number
				} else if name != "" || number == "0" {
					style = name
				}
			}
		}
		show(line[at:])
		b.WriteByte('\n')
	}
	return b.String()
}

// await waits until the screen is what the test waits for, and returns it.
func (m *tmux) await(t *testing.T, what string, found func(screen string) bool) string {
	t.Helper()
	screen := ""
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(tmuxPause) {
		if screen = m.screen(t); found(screen) {
			return screen
		}
	}
	t.Fatalf("%s does not appear on\n%s", what, screen)
	return ""
}

// awaitText waits until a pattern is on the screen.
func (m *tmux) awaitText(t *testing.T, pattern string) string {
	t.Helper()
	return m.await(t, pattern, regexp.MustCompile(pattern).MatchString)
}

// golden waits until a pattern is on the screen, and the screen, of which mask hides what differs between runs, is that of a golden file.
// A screen that was drawn in part is not compared.
func (m *tmux) golden(t *testing.T, name, pattern string, mask func(screen string) string) {
	t.Helper()
	path := filepath.Join("testdata", fmt.Sprintf("tmux-%s-%dx%d.golden", name, m.columns, m.rows))
	want, err := os.ReadFile(path)
	if err != nil && !golden.Updating() {
		t.Fatalf("%v; -update writes it", err)
	}
	ready := regexp.MustCompile(pattern)
	got, alike := "", 0
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(tmuxPause) {
		screen := m.screen(t)
		if !ready.MatchString(screen) {
			continue
		}
		last := got
		if got = mask(screen); got == last {
			alike++
		}
		if got == string(want) || golden.Updating() && alike > 20 {
			break
		}
	}
	if got == "" {
		t.Fatalf("%s does not appear on\n%s", pattern, m.screen(t))
	}
	golden.Compare(t, path, got)
}

// same is the mask of screens that are the same in each run.
func same(screen string) string { return screen }

// awaitEnd waits until bperf has ended with success, and checks that the terminal is as it was before.
func (m *tmux) awaitEnd(t *testing.T) {
	t.Helper()
	const state = "#{alternate_on} #{pane_dead} #{pane_dead_status}"
	got := ""
	for deadline := time.Now().Add(tmuxPatience); time.Now().Before(deadline); time.Sleep(tmuxPause) {
		m.run(t, "run-shell", "-b", "true") // the end of a child makes tmux see also children that ended while it ignored their signal
		if got = strings.TrimSpace(m.run(t, "display-message", "-p", state)); got == "0 1 0" {
			return
		}
	}
	t.Errorf("%s is %q\n%s", state, got, m.screen(t))
}
