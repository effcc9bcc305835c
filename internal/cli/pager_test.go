package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// pagerScript makes a pager of these shell commands, and returns its path.
func pagerScript(t *testing.T, commands string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pager")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPager checks which output goes through the user's pager.
func TestPager(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	shows := pagerScript(t, `echo "BEGIN $LESS"; cat; echo "END"`)
	other := pagerScript(t, `echo WRONG; cat`)
	paged := []string{"PERF_PAGER=" + shows, "PAGER=" + other}
	for _, test := range []struct {
		args  string
		env   []string
		pager bool
		want  string
	}{
		{"list cpu-clock", paged, true, "cpu-clock"},
		{"report --stdio -i " + recording, paged, true, "Children"},
		{"report -D -i " + recording, paged, true, "PERF_RECORD_SAMPLE"},
		{"script -i " + recording, paged, true, "cpu-clock:"},
		{"evlist -i " + recording, paged, true, "page-faults"},
		{"annotate --stdio -i " + recording, paged, true, "Percent"},
		{"help events", paged, true, "of a PMU"},
		{"record --help", paged, true, "Usage:"},
		{"-p list cpu-clock", paged, true, "cpu-clock"},
		{"list cpu-clock", []string{"PERF_PAGER=" + shows + " -x 1", "LESS=-Q"}, true, "cpu-clock"},
		{"--no-pager list cpu-clock", paged, false, "cpu-clock"},
		{"list --json cpu-clock", paged, false, "cpu-clock"},
		{"report --format csv -i " + recording, paged, false, "sum_up"},
		{"version", paged, false, "bperf"},
		{"list cpu-clock", []string{"PERF_PAGER=", "PAGER=" + other}, false, "cpu-clock"},
		{"list cpu-clock", []string{"PERF_PAGER=cat"}, false, "cpu-clock"},
		{"list cpu-clock", []string{"PERF_PAGER=/nonexistent/pager"}, false, "cpu-clock"},
	} {
		term := newTerminal(t, 80, 24)
		cmd := bperf(strings.Fields(test.args)...)
		cmd.Env = append(cmd.Env, test.env...)
		if err := term.start(t, cmd).Wait(); err != nil {
			t.Errorf("%s: %v", test.args, err)
		}
		wants := []string{test.want}
		switch {
		case slices.Contains(test.env, "LESS=-Q"):
			wants = append(wants, "BEGIN -Q", "END")
		case test.pager:
			wants = append(wants, "BEGIN FRSX", "END")
		}
		var text string
		term.awaitText(t, test.args, func(written []byte) bool {
			text = string(written)
			return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(text, want) })
		})
		if strings.Contains(text, "BEGIN") != test.pager || strings.Contains(text, "WRONG") {
			t.Errorf("%s, %q: %s", test.args, test.env, text)
		}
		piped := bperf(strings.Fields(test.args)...)
		piped.Env = append(piped.Env, test.env...)
		if got := run(t, piped); strings.Contains(got.stdout, "BEGIN") || !strings.Contains(got.stdout, test.want) {
			t.Errorf("%s: a pipe got %+v", test.args, got)
		}
	}
}

// TestPagerEnds ends pagers early, presses Ctrl-C, and checks the exit status.
func TestPagerEnds(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	for _, test := range []struct {
		name, pager string
		keys        []string // each after the text before it
	}{
		{"quit", `head -n 1 >/dev/null; echo QUIT`, []string{"QUIT"}},
		{"fails", `cat >/dev/null; echo FAILS; exit 3`, []string{"FAILS"}},
		{"ctrl-c", `trap "" INT; cat >/dev/null; echo WAITS; read key </dev/tty; echo "KEY $key"`, []string{"WAITS", "\x03\x03x\n", "KEY x"}},
	} {
		term := newTerminal(t, 80, 24)
		before := term.settings(t)
		cmd := bperf("report", "-D", "-i", recording) // longer than a pipe holds
		cmd.Env = append(cmd.Env, "PERF_PAGER="+pagerScript(t, test.pager))
		term.start(t, cmd)
		for i, text := range test.keys {
			if i%2 == 1 {
				term.press(t, text)
			} else {
				term.await(t, text)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if term.settings(t) != before {
			t.Errorf("%s: the terminal is not as it was before", test.name)
		}
		term.mu.Lock()
		if text := term.written.String(); strings.Contains(text, "broken pipe") || strings.Contains(text, "Error") {
			t.Errorf("%s: %s", test.name, text)
		}
		term.mu.Unlock()
	}
}
