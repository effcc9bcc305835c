// Package e2e tests the bperf binary as its users run it, on this kernel and in guests. It checks counts by programs that cause a known
// number of events. No test depends on timing.
package e2e

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// bperfPath is the binary under test: $BPERF or, if that is not set, a binary built for the run.
var bperfPath = os.Getenv("BPERF")

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if bperfPath == "" {
		dir, err := os.MkdirTemp("", "bperf-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bperfPath = filepath.Join(dir, "bperf")
		build := exec.Command("go", "build", "-o", bperfPath, "github.com/bperf/bperf/cmd/bperf")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build bperf, or name one in BPERF:", err)
			return 1
		}
	}
	return m.Run()
}

// row is a line of `bperf stat -x,` without aggregation: value, unit, event, time running, percentage of the time enabled.
type row struct {
	Event   string
	Value   float64
	Running uint64  // ns
	Percent float64 // of the time enabled
}

// stat runs `bperf stat -x, ARGS...`, which must succeed, and returns the rows of the events in order.
func stat(t *testing.T, args ...string) []row {
	t.Helper()
	return parse(t, run(t, append([]string{"stat", "-x,"}, args...)...))
}

// run runs bperf, which must succeed, and returns its standard error, which has the counts.
func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(bperfPath, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return stderr.String()
}

func parse(t *testing.T, text string) []row {
	t.Helper()
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	records, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	var rows []row
	for _, f := range records {
		if len(f) < 5 || f[2] == "" {
			continue // only a metric
		}
		value, errValue := strconv.ParseFloat(f[0], 64)
		running, errRunning := strconv.ParseUint(f[3], 10, 64)
		percent, errPercent := strconv.ParseFloat(f[4], 64)
		for _, err := range []error{errValue, errRunning, errPercent} {
			if err != nil {
				t.Fatalf("%v in:\n%s", err, text)
			}
		}
		rows = append(rows, row{f[2], value, running, percent})
	}
	if len(rows) == 0 {
		t.Fatalf("no counts in:\n%s", text)
	}
	return rows
}
