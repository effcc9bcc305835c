package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

func TestVersion(t *testing.T) {
	got := run(t, bperf("version"))
	if got.status != 0 || !strings.HasPrefix(got.stdout, "bperf version ") || !strings.Contains(got.stdout, " linux/") {
		t.Errorf("status %d, printed %q%q", got.status, got.stdout, got.stderr)
	}
}

// TestBuildOptions asks as scripts ask perf.
func TestBuildOptions(t *testing.T) {
	for _, args := range [][]string{{"version", "--build-options"}, {"-vv"}} {
		got := runHere(t, args...)
		if got.status != 0 || !strings.Contains(got.stdout, "\n         libtraceevent: [ on  ]\n") || !strings.Contains(got.stdout, "\n             libpython: [ OFF ]\n") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	require.NoKernel(t)
	for args, want := range map[string]string{
		"sata":             `there is no command "sata"; did you mean "stat"?`,
		"xyzzy":            `there is no command "xyzzy"`,
		"xyzzy --help":     `there is no command "xyzzy"`,
		"help xyzzy":       `there is no command "xyzzy"`,
		"--no-pager xyzzy": `there is no command "xyzzy"`,
		"trace -e open ls": "bperf has no command trace: only perf has it",
		"version x":        `bperf version takes no argument "x"`,
		"prog list 1 2":    `bperf prog list takes only one argument, not also "2"`,
		"prog show":        "bperf prog show needs an argument, SELECTOR\nSee bperf prog show --help\n",
		"--nope":           "unknown flag: --nope",
	} {
		got := run(t, bperf(strings.Fields(args)...))
		if got.status == 0 || got.stdout != "" || !strings.HasPrefix(got.stderr, "Error: "+want) {
			t.Errorf("%s: status %d, printed %q%q, want %q", args, got.status, got.stdout, got.stderr, want)
		}
	}
}

// TestEveryCommand checks that bperf finds each command both alone and in the tree of all.
func TestEveryCommand(t *testing.T) {
	require.NoKernel(t)
	names := 0
	for _, cmd := range newRootCommand("bperf", nil).Commands() {
		if isTopic(cmd) {
			continue
		}
		names++
		alone, within := runHere(t, cmd.Name(), "--help"), runHere(t, "help", cmd.Name())
		if alone.status != 0 || !strings.Contains(alone.stdout, "Usage:") || alone != within {
			t.Errorf("bperf %s --help: %+v; bperf help %[1]s: %+v", cmd.Name(), alone, within)
		}
	}
	if names < 15 {
		t.Errorf("%d commands", names)
	}
}

// TestCalledPerf runs bperf through a link named perf, as scripts for perf would.
func TestCalledPerf(t *testing.T) {
	require.Root(t)
	link := filepath.Join(t.TempDir(), "perf")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"stat", "-x,", "-e", "task-clock", "sh", "-c", "exit 3"},
		{"stat", "-i", "-x,", "-e", "task-clock", "sh", "-c", "exit 3"},
	} {
		cmd := exec.Command(link, args...)
		cmd.Env = bperf().Env
		if got := run(t, cmd); got.status != 3 || !strings.Contains(got.stderr, ",msec,task-clock,") {
			t.Errorf("%v: status %d, printed %q", args, got.status, got.stderr)
		}
	}
	recorder := recordCommand(t, "-e", "task-clock", "true")
	recorder.Path, recorder.Args[0] = link, link
	if got := run(t, recorder); got.status != 0 || !strings.HasPrefix(got.stderr, "[ perf record: Woken up ") {
		t.Errorf("status %d, printed %q", got.status, got.stderr)
	}
	cmd := exec.Command(link, "stat", "--nope")
	cmd.Env = bperf().Env
	if got := run(t, cmd); got.status != 129 || !strings.Contains(got.stderr, "See perf stat --help") {
		t.Errorf("status %d, printed %q", got.status, got.stderr)
	}
}

func TestManPages(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	if got := run(t, bperf("man", dir)); got.status != 0 {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man1", "bperf-stat.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".TH BPERF\\-STAT 1 ",
		".SH SYNOPSIS\n.B bperf stat ",
		".TP\n.B \\-I, \\-\\-interval\\-print TIME\nprint the counts of each interval",
		".TP\n.B \\-a, \\-\\-all\\-cpus\ncount the whole system",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("bperf-stat.1 does not have %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "man7", "bperf-events.7")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"bperf.1", "bperf-counters.1", "bperf-list.1", "bperf-doctor.1", "bperf-version.1"} {
		if _, err := os.Stat(filepath.Join(dir, "man1", name)); err != nil {
			t.Error(err)
		}
	}
}

func TestCompletion(t *testing.T) {
	require.NoKernel(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := run(t, bperf("completion", shell)); got.status != 0 || !strings.Contains(got.stdout, "bperf") {
			t.Errorf("%s: status %d, %d bytes", shell, got.status, len(got.stdout))
		}
	}
}

// TestOutputLost writes to a standard output that fails. Losing output must be an error, even for help.
func TestOutputLost(t *testing.T) {
	require.AnyArch(t)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("[report]\nsort = comm\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(recordings, "callchain.data")
	for _, args := range [][]string{
		nil, {"--help"}, {"help"}, {"help", "stat"}, {"stat", "--help"}, {"prog", "list", "--help"}, {"completion", "bash"}, {"version"}, {"list", "sw"},
		{"config", "-l"}, {"report", "-i", data}, {"report", "-i", data, "--format", "json"}, {"script", "-i", data}, {"evlist", "-i", data}, {"buildid-list", "-i", data},
		{"diff", data, data}, {"doctor"}, {"counters"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := bperf(args...)
		cmd.Env = append(cmd.Env, "PERF_CONFIG="+config)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		err = cmd.Run()
		full.Close()
		if err == nil || !strings.Contains(stderr.String(), "Error: ") || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%q: %v, printed %q", args, err, stderr.String())
		}
	}
}
