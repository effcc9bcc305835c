package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestReportOnTerminal walks through a report on a terminal, and ends it in several ways. The terminal must be restored afterwards.
func TestReportOnTerminal(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	symbols := kernelSymbols(t, walkSymbols)
	for name, end := range map[string]func(*testing.T, *terminal, *exec.Cmd){
		"q":       func(t *testing.T, term *terminal, _ *exec.Cmd) { term.press(t, "q") },
		"ctrl-c":  func(t *testing.T, term *terminal, _ *exec.Cmd) { term.press(t, "\x03") },
		"SIGTERM": func(_ *testing.T, _ *terminal, cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *testing.T, _ *terminal, cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(t, 100, 24)
			before := term.settings(t)
			cmd := bperf("report", "-i", recording, "--kallsyms", symbols)
			cmd.Dir = t.TempDir()
			term.start(t, cmd)
			term.awaitRaw(t, enterScreen)
			term.await(t, `sum_up`)
			if term.settings(t) == before {
				t.Error("keys are not read one by one")
			}
			if name == "q" {
				term.press(t, "/nothing")
				term.await(t, `No name has that in it`)
				term.press(t, "\x15sum_up\r")
				term.await(t, `names with: sum_up; line 1 of 1`)
				term.press(t, "a")
				term.await(t, `for \(u32 i = 0; i < \(n & 15\); i\+\+\)`)
				term.press(t, "q")
				term.await(t, `names with: sum_up`)
				term.press(t, "scpu\r")
				term.await(t, `50\.00% +001`)
				term.press(t, "P")
				term.await(t, `wrote perf.hist.0`)
				term.resize(t, 20, 3)
				term.await(t, `50\.00%`)
			}
			end(t, term, cmd)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			term.awaitRaw(t, leaveScreen)
			if after := term.settings(t); after != before {
				t.Errorf("the terminal was %+v, and is %+v", before, after)
			}
			if _, err := os.Stat(filepath.Join(cmd.Dir, "perf.hist.0")); name == "q" && err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReportStops suspends a report while an annotated function is shown. The terminal must be restored, and the function be shown again.
func TestReportStops(t *testing.T) {
	require.NoKernel(t)
	term := newTerminal(t, 100, 24)
	before := term.settings(t)
	shell := term.startJob(t, "report", "-i", writeWalk(t), "--kallsyms", kernelSymbols(t, walkSymbols))
	term.await(t, `sum_up`)
	term.press(t, "/sum_up\ra")
	term.await(t, `Instructions of`)
	term.press(t, "\x1a")
	term.await(t, `stopped`)
	if term.settings(t) != before {
		t.Error("the terminal is not as it was before")
	}
	term.press(t, "\n")
	term.awaitRaw(t, enterScreen)
	term.await(t, `Instructions of`)
	term.press(t, "qq")
	term.await(t, `ended 0`)
	if err := shell.Wait(); err != nil {
		t.Error(err)
	}
}

// TestReportPrints checks what opens no screen: pipes always print, and so do options on a terminal.
func TestReportPrints(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	want := run(t, bperf("report", "-i", recording))
	if want.status != 0 || !strings.HasPrefix(want.stdout, "# To display the perf.data header info") {
		t.Fatalf("%+v", want)
	}
	for _, option := range []string{"--stdio", "--tui", "--format=table", "-o-"} {
		if got := run(t, bperf("report", "-i", recording, option)); got != want {
			t.Errorf("%s: %+v, want %+v", option, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{{"--stdio"}, {"--stdio", "--tui"}, {"--format", "csv"}, {"--stats"}, {"--tasks"}, {"--header"},
		{"--header-only"}, {"-q"}, {"-H"}, {"-t", ","}, {"-o", "-"}, {"-o", file}, {"--diff", recording}} {
		args = append([]string{"report", "-i", recording}, args...)
		piped := run(t, bperf(args...))
		term := newTerminal(t, 80, 24)
		cmd := term.start(t, bperf(args...))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		printed := strings.ReplaceAll(piped.stdout, "\n", "\r\n")
		term.awaitText(t, "what a pipe gets from "+strings.Join(args, " "), func(text []byte) bool {
			return strings.Contains(string(text), printed)
		})
		term.mu.Lock()
		if strings.Contains(term.written.String(), enterScreen) {
			t.Errorf("%q opened a screen", args)
		}
		term.mu.Unlock()
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != want.stdout {
		t.Errorf("%v, %s", err, written)
	}
}
