package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// pageFaults is an event file for a CPU of any vendor: its events are those of a PMU that every machine has.
const pageFaults = `[
	{"EventName": "OWN.FAULTS", "ConfigCode": "0x2", "Unit": "software", "BriefDescription": "Faults,\u001b[31m in red.",
	 "PublicDescription": "Faults of pages.\nMinor and major ones."},
	{"EventName": "OWN.SWITCHES", "ConfigCode": "0x3", "Unit": "software", "BriefDescription": "Switches"},
	{"EventName": "OWN.OLD", "ConfigCode": "0x3", "Unit": "software", "Deprecated": "1"},
	{"MetricName": "own_faults", "MetricExpr": "software@OWN.FAULTS@ / software@OWN.FAULTS@", "MetricGroup": "Own", "ScaleUnit": "1x",
	 "BriefDescription": "One", "PublicDescription": "One, if there are faults"}]`

// eventFiles returns a directory with an event file.
func eventFiles(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runWith runs bperf with additional variables and without event files of this user's.
func runWith(t *testing.T, variables []string, args ...string) result {
	t.Helper()
	cmd := bperf(args...)
	cmd.Env = append(append(cmd.Environ(), "BPERF_EVENT_FILES=", "XDG_CACHE_HOME="+t.TempDir()), variables...)
	return run(t, cmd)
}

func TestListEventFiles(t *testing.T) {
	require.NoKernel(t)
	dir := eventFiles(t, pageFaults)
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"brief", []string{"own*"}},
		{"long", []string{"-v", "own*"}},
		{"no-desc", []string{"-v", "--no-desc", "own*"}},
		{"details", []string{"--long-desc", "--details", "own*"}},
		{"json", []string{"--json", "own*"}},
	} {
		got := runWith(t, nil, append([]string{"list", "--event-files", dir}, test.args...)...)
		if got.status != 0 || got.stderr != "" && !strings.HasPrefix(got.stderr, "Warning: tracepoints") {
			t.Errorf("%s: %+v", test.golden, got)
		}
		golden.Compare(t, filepath.Join("testdata", "list-files-"+test.golden+".golden"), got.stdout)
	}
	metrics := runWith(t, nil, "list", "--event-files", dir, "-v", "--details", "metric", "metricgroup")
	for _, want := range []string{"own_faults  ", "[One, if there are faults]", "software@OWN.FAULTS@ / software@OWN.FAULTS@", "\n  Own  "} {
		if !strings.Contains(metrics.stdout, want) {
			t.Errorf("%q is missing: %+v", want, metrics)
		}
	}
}

// TestStatEventFiles counts events of event files, which are found in three ways.
func TestStatEventFiles(t *testing.T) {
	require.NoKernel(t)
	dir, cache := eventFiles(t, pageFaults), t.TempDir()
	if err := os.Symlink(dir, filepath.Join(cache, "pmu-events")); err != nil {
		t.Fatal(err)
	}
	stat := []string{"stat", "-j", "-e", "page-faults:u,own.faults:u", "-M", "own_faults"}
	for name, got := range map[string]result{
		"--event-files": runWith(t, nil, append(stat, "--event-files", dir, "true")...),
		"variable":      runWith(t, []string{"BPERF_EVENT_FILES=" + dir}, append(stat, "true")...),
		"cache":         runWith(t, []string{"XDG_CACHE_HOME=" + cache}, append(stat, "true")...),
	} {
		counts := map[string]string{}
		metric := ""
		for line := range strings.Lines(got.stderr) {
			var row struct {
				Event string
				Count string `json:"counter-value"`
				Value string `json:"metric-value"`
				Unit  string `json:"metric-unit"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%s: %v in %+v", name, err, got)
			}
			counts[row.Event] = row.Count
			if strings.Contains(row.Unit, "own_faults") {
				metric = row.Value
			}
		}
		if n := counts["own.faults:u"]; got.status != 0 || n == "" || n != counts["page-faults:u"] || !strings.HasPrefix(metric, "1.0") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestEventFilesErrors(t *testing.T) {
	require.NoKernel(t)
	broken, dir := eventFiles(t, `[{"EventName": "A",`), eventFiles(t, pageFaults)
	cache := t.TempDir()
	if err := os.Symlink(broken, filepath.Join(cache, "pmu-events")); err != nil {
		t.Fatal(err)
	}
	const ends = "own.json: it ends in the middle of its JSON"
	for _, test := range []struct {
		name, variable, want string
		status               int
		args                 []string
	}{
		{"an unknown event", "", "Did you mean own.faults?", 129, []string{"stat", "--event-files", dir, "-e", "own.fault", "true"}},
		{"a broken file", "", ends, 129, []string{"stat", "--event-files", broken, "-e", "own.faults", "true"}},
		{"a broken file and a metric", "", ends, 129, []string{"stat", "--event-files", broken, "-M", "own_faults", "true"}},
		{"a broken file and top", "", ends, 129, []string{"top", "--once", "--event-files", broken, "-e", "own.faults"}},
		{"a broken file and record", "", ends, 129, []string{"record", "-o", filepath.Join(cache, "data"), "--event-files", broken, "-e", "own.faults", "true"}},
		{"a broken file and profile", "", ends, 129, []string{"profile", "--event-files", broken, "-e", "own.faults", "true"}},
		{"a broken file and list", "", ends, 1, []string{"list", "--event-files", broken, "pmu"}},
		{"no directory", "BPERF_EVENT_FILES=/nonexistent", "open /nonexistent: no such file or directory; name their directory", 129,
			[]string{"stat", "-e", "own.faults", "true"}},
		{"a broken file in the cache", "XDG_CACHE_HOME=" + cache, "event files are not used: " + cache + "/pmu-events/" + ends, 129,
			[]string{"stat", "-e", "own.faults", "true"}},
		{"a broken file in the cache and list", "XDG_CACHE_HOME=" + cache, "Warning: event files are not used: " + cache, 0, []string{"list", "sw"}},
	} {
		if got := runWith(t, []string{test.variable}, test.args...); got.status != test.status || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: got %+v, want %q and status %d", test.name, got, test.want, test.status)
		}
	}
	// Without an event of the vendor nothing is read.
	if got := runWith(t, []string{"BPERF_EVENT_FILES=" + broken}, "stat", "-e", "cpu-clock", "true"); got.status != 0 || strings.Contains(got.stderr, "event files") {
		t.Errorf("an event that is not the vendor's: %+v", got)
	}
}
