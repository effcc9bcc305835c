package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// observation returns programs, one with a name that each format has to escape.
func observation() *bpfprog.Observation {
	entries := progListing(time.Second).Entries
	o := &bpfprog.Observation{Time: time.Date(2026, 3, 14, 9, 0, 0, 5e8, time.UTC), Window: time.Second}
	for _, e := range entries {
		seen := bpfprog.Observed{Program: e.Program, Use: use(e)}
		o.Programs = append(o.Programs, seen)
	}
	o.Programs[0].Name = "a\"b\\c,d\ne\xff"
	o.Programs[0].Program.Stats.RunTime = 12*time.Second + 34
	return o
}

func TestStatsFormats(t *testing.T) {
	for format, write := range statsFormats {
		var b bytes.Buffer
		write(&b, observation(), true)
		write(&b, &bpfprog.Observation{Time: observation().Time.Add(time.Second), Window: time.Second, Programs: observation().Programs[1:2]}, false)
		golden.Compare(t, filepath.Join("testdata", "prog-stats-"+format+".golden"), b.String())
	}
	var b bytes.Buffer
	writeStatsCSV(&b, observation(), true)
	if rows, err := csv.NewReader(&b).ReadAll(); err != nil || len(rows) != 4 || rows[1][4] != observation().Programs[0].Name {
		t.Errorf("read back %q, %v", rows, err)
	}
}

// TestPrintProgStats counts the intervals, and checks that errors of reading and writing end it.
func TestPrintProgStats(t *testing.T) {
	next := func() (*bpfprog.Observation, error) { return observation(), nil }
	var b bytes.Buffer
	if err := printProgStats(t.Context(), &b, next, writeStatsOpenMetrics, time.Millisecond, 3); err != nil || strings.Count(b.String(), "# EOF\n") != 3 {
		t.Errorf("%v, printed\n%s", err, &b)
	}
	err := printProgStats(t.Context(), brokenPipe{}, next, writeStatsCSV, time.Millisecond, 0)
	if err == nil || err.Error() != "print the statistics: broken pipe" {
		t.Errorf("got %v", err)
	}
	fails := func() (*bpfprog.Observation, error) { return nil, errors.New("no") }
	if err := printProgStats(t.Context(), &b, fails, writeStatsCSV, time.Millisecond, 0); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := printProgStats(done, &b, fails, writeStatsCSV, time.Hour, 0); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestProgStatsRefuses(t *testing.T) {
	for args, want := range map[string]result{
		"prog stats -I 9":         {"", "Error: --interval 9: the interval must be at least 10 ms\n", 22},
		"prog stats --count -1":   {"", "Error: --count -1: give a number of intervals, or 0 for no end\n", 22},
		"prog stats --format xml": {"", "Error: --format xml: the formats are csv, json, openmetrics\n", 22},
		"prog stats 0":            {"", "Error: BPF programs: \"0\": an ID is a number from 1 to 2147483647\n", 129},
	} {
		if got := runHere(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
	require.Root(t)
	want := result{status: 1, stderr: "Error: no BPF program is selected by \"2147483647\": none of those that are loaded matches\n"}
	if got := run(t, bperf("prog", "stats", "2147483647")); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// startReading starts a command whose output is a pipe.
func startReading(t *testing.T, cmd *exec.Cmd) (*bufio.Reader, io.Closer, *bytes.Buffer) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return bufio.NewReader(stdout), stdout, stderr
}

// loadNothing loads a program that does nothing.
func loadNothing(t *testing.T, name string) (*ebpf.Program, uint32) {
	t.Helper()
	require.Root(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return prog, uint32(id)
}

// TestProgStats checks that it ends at a signal, and when its output has no reader, even in the middle of an interval of an hour.
func TestProgStats(t *testing.T) {
	prog, id := loadNothing(t, "bperf_test_stat")
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := bperf("prog", "stats", "-I", "10", "--json", fmt.Sprint(id))
		stdout, _, stderr := startReading(t, cmd)
		const n = 20
		var total uint64
		for ran := false; total < n; ran = true {
			line, err := stdout.ReadBytes('\n')
			var p statsJSON
			if err != nil {
				t.Fatalf("line %q, %v, %s", line, err, stderr)
			}
			if unwrap(t, strings.Replace(string(line), `"type":"raw_tracepoint"`, `"type":17`, 1), progStatsSchema, &p); p.ID != id {
				t.Fatalf("line %q, %s", line, stderr)
			}
			total += p.Use.Runs
			for i := 0; !ran && i < n; i++ { // once the first line shows that it counts
				if _, err := prog.Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if total != n {
			t.Errorf("%d runs, want %d", total, n)
		}
		cmd.Process.Signal(sig)
		if _, err := io.Copy(io.Discard, stdout); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("at %v: %v, %s", sig, err, stderr)
		}
	}
	for _, interval := range []string{"10", "3600000"} {
		cmd := bperf("prog", "stats", "-I", interval)
		stdout, pipe, stderr := startReading(t, cmd)
		if interval == "10" {
			if _, err := stdout.ReadString('\n'); err != nil {
				t.Error(err)
			}
		}
		pipe.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("without a reader: %v, %s", err, stderr)
		}
	}
}
