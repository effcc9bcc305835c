package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestPerEventDump prints the samples of each event to a file, and other records to standard output.
func TestPerEventDump(t *testing.T) {
	require.NoKernel(t)
	data, err := os.ReadFile(filepath.Join(recordings, "group.data"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "group.data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got := runHere(t, "script", "--per-event-dump", "-i", path, "-F", "event,time,period", "--show-task-events")
	want := strings.ReplaceAll(`[ bperf script: Wrote 0.000 MB FILE.cpu-clock.dump (3 samples) ]
[ bperf script: Wrote 0.000 MB FILE.page-faults.dump (3 samples) ]
[ bperf script: Wrote 0.000 MB FILE.task-clock.dump (3 samples) ]
`, "FILE", path)
	records, files, _ := strings.Cut(got.stdout, "[ ")
	if got.status != 0 || strings.Count(records, "PERF_RECORD_") != 3 || strings.Count(records, "\n") != 3 {
		t.Errorf("status %d, %s; records:\n%s", got.status, got.stderr, records)
	}
	if diff := cmp.Diff(want, "[ "+files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(path + ".page-faults.dump")
	const faults = " 2743.867117:         12 page-faults: \n 2743.867616:         29 page-faults: \n 2743.868112:         34 page-faults: \n"
	if diff := cmp.Diff(faults, string(text)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got = runHere(t, "script", "-i", path, "-D", "--per-event-dump")
	if got.status != statusBadOption || !strings.Contains(got.stderr, "--per-event-dump") {
		t.Errorf("with -D: %+v", got)
	}
}

// TestEventFileNames creates files for events whose names would lead elsewhere, or are the same.
func TestEventFileNames(t *testing.T) {
	dir := t.TempDir()
	var events []*perfdata.Event
	for _, name := range []string{"cpu/cycles/u", "../../x", "a", "a\x1b[1m", "a"} {
		events = append(events, &perfdata.Event{Name: name})
	}
	files, outputs, err := createEventFiles(filepath.Join(dir, "perf.data"), events)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEventFiles(files)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"perf.data..._.._x.dump", "perf.data.a.dump", "perf.data.a?[1m.dump", "perf.data.cpu_cycles_u.dump"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(outputs) != len(events) || outputs[2] != outputs[4] {
		t.Errorf("events of the same name have the outputs %p and %p", outputs[2], outputs[4])
	}
	if _, _, err := createEventFiles(filepath.Join(dir, "perf.data"), make([]*perfdata.Event, maxEventFiles+1)); err == nil {
		t.Error("a file for each of too many events")
	}
	if _, _, err := createEventFiles(filepath.Join(dir, "none", "perf.data"), events); err == nil {
		t.Error("no error in a directory that does not exist")
	}
}
