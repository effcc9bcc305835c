package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// configure writes a configuration that commands of the test read.
func configure(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "perfconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PERF_CONFIG", file)
	return file
}

func TestConfigList(t *testing.T) {
	require.NoKernel(t)
	file := configure(t, "[stat]\nbpf-counter-events = cycles,instructions\n[ui \"e\x1b\"]\nshow = yes\n[stat]\nbpf-counter-events = cycles\n")
	got := runHere(t, "config", "-l")
	want := "stat.bpf-counter-events=cycles  # " + file + ":6\nui.e?.show=yes  # " + file + ":4, ignored\n"
	if got.status != 0 || got.stdout != want {
		t.Errorf("status %d, printed %q%q, want %q", got.status, got.stdout, got.stderr, want)
	}
	if got := runHere(t, "config"); got.status != statusBadOption || !strings.Contains(got.stderr, "config can only list, with -l") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
	configure(t, "[stat\n")
	for _, args := range [][]string{{"config", "-l"}, {"stat", "true"}, {"record", "true"}, {"record", "--dry-run", "true"}, {"report"}} {
		if got := runHere(t, args...); got.status != statusBadOption || !strings.Contains(got.stderr, "perfconfig:1: the section [stat is not closed") {
			t.Errorf("%s: status %d, %s", args, got.status, got.stderr)
		}
	}
	configure(t, "[report]\nchildren = perhaps\n")
	if got := runHere(t, "report"); got.status != statusBadOption || !strings.Contains(got.stderr, "perfconfig:2: report.children = perhaps: expected true or false") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}

// TestConfigIgnored expects a note about a configuration of another user, and none with --quiet. The commands fail at --control, before they
// measure.
func TestConfigIgnored(t *testing.T) {
	require.Root(t)
	file := configure(t, "[stat]\nbig-num = false\n")
	own := filepath.Join(filepath.Dir(file), ".perfconfig")
	if err := errors.Join(os.Rename(file, own), os.Chown(own, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PERF_CONFIG", "")
	t.Setenv("HOME", filepath.Dir(own))
	const note = "it belongs to the user 12345"
	for args, noted := range map[string]bool{
		"stat": true, "stat -j": true, "stat --quiet": false, "stat --quiet -v": false, "record": true, "record -q": false,
	} {
		got := runHere(t, append(strings.Fields(args), "--control", "7", "true")...)
		if got.status != statusBadOption || strings.Contains(got.stderr, note) != noted {
			t.Errorf("%s: status %d, %s", args, got.status, got.stderr)
		}
		if args == "stat -j" && !strings.HasPrefix(got.stderr, `{"note" : `) {
			t.Errorf("%s: %s", args, got.stderr)
		}
	}
}

// TestConfiguredReport expects the same reports as with the equivalent options, and that options take precedence.
func TestConfiguredReport(t *testing.T) {
	require.NoKernel(t)
	report := func(options ...string) string {
		t.Helper()
		got := runHere(t, append([]string{"report", "-i", filepath.Join(recordings, "callchain.data")}, options...)...)
		if got.status != 0 || got.stdout == "" {
			t.Fatalf("%v: status %d, %s", options, got.status, got.stderr)
		}
		return got.stdout
	}
	options := []string{"--no-children", "--percent-limit", "20", "--sort", "comm,sym"}
	others := []string{"--children", "--percent-limit", "0", "--sort", "dso"}
	want, wantOthers := report(options...), report(others...)
	if want == wantOthers || want == report() {
		t.Fatal("the options change nothing")
	}
	configure(t, "[report]\n\tchildren = false\n\tpercent-limit = 20%\n\tsort_order = comm,sym\n")
	if got := report(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := report(others...); got != wantOthers {
		t.Errorf("with options: %s, want %s", got, wantOthers)
	}
}

// TestConfiguredSharing expects that bperf shares an event that the configuration names, and no other.
func TestConfiguredSharing(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	require.BPFFS(t)
	configure(t, "[stat]\nbpf-counter-events = cpu-clock,page-faults:u\n[colors]\nfoo = bar\n")
	got := run(t, bperf("stat", "-v", "-e", "cpu-clock,page-faults,page-faults:u", "-a", "true"))
	if got.status != 0 || strings.Count(got.stderr, "sessions that share it") != 2 || !strings.Contains(got.stderr, "perfconfig:4: bperf ignores colors.foo") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}
