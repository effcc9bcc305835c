package cli

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/require"
)

// TestReportBesidePerf compares whole reports of small recordings, with options that only decide what is shown.
func TestReportBesidePerf(t *testing.T) {
	perf := require.NewestPerf(t)
	// perf would take the symbols of the kernel that runs, whichever kernel was recorded.
	text := "ffffffff81000000 T _text\n"
	for at := uint64(0xffffffff81100000); at < 0xffffffff82400000; at += 1 << 20 {
		text += fmt.Sprintf("%x T function_%x\n", at, at>>20&0xfff)
	}
	symbols := kernelSymbols(t, text)
	for _, tt := range []struct {
		recordings []string
		args       []string
	}{
		{[]string{"callchain", "group", "zstd", "bpf"}, []string{"--no-children", "-g", "none", "-H"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "-s", "pid,dso", "-n", "--show-total-period"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "--percent-limit", "5", "-q"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-H", "-t", ";", "-c", "ls"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-w", "0,3,20,12"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-w", "0,5", "-H"}},
		{[]string{"callchain"}, []string{"--no-children", "-g", "none", "-w", "20,0,12", "-n", "-s", "pid,dso"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time,comm", "--time-quantum", "1ms"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time", "--time-quantum", "10us", "--ns"}},
		{[]string{"callchain", "group"}, []string{"--no-children", "-g", "none", "-s", "time", "--time-quantum", "300"}},
		{[]string{"tracepoint"}, nil},
		{[]string{"tracepoint", "callchain"}, []string{"-g", "none", "-s", "comm,trace"}},
		{[]string{"tracepoint"}, []string{"-s", "+comm", "-n"}},
		{[]string{"group"}, []string{"--no-children", "-g", "none", "--group-sort-idx", "1"}},
		{[]string{"group"}, []string{"--no-children", "-g", "none", "--group-sort-idx", "7"}},
	} {
		for _, name := range tt.recordings {
			file, err := filepath.Abs(filepath.Join(recordings, name+".data"))
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"report", "--stdio", "--kallsyms", symbols, "-i", file}, tt.args...)
			want, got := withoutTip(string(output(t, exec.Command(perf), args...))), string(output(t, bperf(), args...))
			if diff := cmp.Diff(want, got); diff != "" || strings.Count(got, "%") < 2 {
				t.Errorf("%s, %q (-perf +bperf):\n%s", name, tt.args, diff)
			}
		}
	}
}

// TestReportTracepointsBesidePerf compares what tracepoints recorded. The columns of one have no rows of another.
func TestReportTracepointsBesidePerf(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	perfs := []string{distributionPerf(t), require.NewestPerf(t)}
	file := filepath.Join(t.TempDir(), "perf.data")
	output(t, recordCommand(t), "record", "-q", "-e", "sched:sched_switch,sched:sched_process_exec", "-o", file, "sh", "-c",
		"ls / >/dev/null; sleep 0.01 & ls / >/dev/null; wait; ls /")
	for _, args := range [][]string{
		{"-s", "trace"},
		{"-s", "trace", "--raw-trace"},
		{"-s", "trace_fields"},
		{"-s", "sched_switch.*", "--raw-trace", "-n"}, // perf cuts paths then,
		{"-s", "sched_switch.prev_state,sched:sched_process_exec.filename"},
		{"-s", "%2.*,prev_prio/raw"},
		{"-s", "next_comm,common_flags,dso"},
		{"-F", "overhead,trace,sample"},
	} {
		args = append([]string{"report", "--stdio", "-i", file}, args...)
		got := withoutWidths(string(output(t, bperf(), args...)))
		for _, perf := range perfs {
			want := withoutWidths(withoutTip(string(output(t, exec.Command(perf), args...))))
			if diff := cmp.Diff(want, got); diff != "" || strings.Count(got, "%") < 2 { // a row of each event
				t.Errorf("%q (-%s +bperf):\n%s", args, perf, diff)
			}
		}
	}
}

// TestTraceDiff compares what tracepoints recorded in two recordings.
func TestTraceDiff(t *testing.T) {
	require.NoKernel(t)
	file := filepath.Join(recordings, "tracepoint.data")
	for _, args := range [][]string{{"diff", "-s", "trace", file, file}, {"report", "-s", "trace", "-i", file, "--diff", file}} {
		if got := runHere(t, args...); got.status != 0 || !strings.Contains(got.stdout, "    91.30%     +0.00%  fd: 0x00000003\n") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	got := runHere(t, "report", "-s", "fd,trace", "-i", file, "-t", ";")
	if got.status != 0 || !strings.Contains(got.stdout, "91.30%;3;fd: 0x00000003\n") || !strings.Contains(got.stdout, "# Overhead;fd;Trace output\n") {
		t.Errorf("separated: %+v", got)
	}
}

// withoutWidths removes what aligns columns: in perf, the order of samples decides whether the width of text includes the byte after it.
func withoutWidths(text string) string {
	return regexp.MustCompile(` +`).ReplaceAllString(regexp.MustCompile(`\.\.+`).ReplaceAllString(text, "."), " ")
}

// withoutTip cuts the tip that ends perf's reports.
func withoutTip(text string) string {
	before, _, _ := strings.Cut(text, "#\n# (Tip:")
	return before
}
