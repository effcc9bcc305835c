package cli

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// writeRecords writes a recording of an event with these records.
func writeRecords(t *testing.T, records ...perfdata.Value) string {
	t.Helper()
	return perffile.Write(t, []*perfdata.Event{{Name: "cycles", Attr: perfdata.Attr{SamplePeriod: 1,
		SampleType: perfdata.SampleIP | perfdata.SampleTID}}}, nil, func(w *perfdata.Writer) {
		for _, r := range records {
			w.Write(perfdata.MiscUser, r)
		}
	})
}

// TestReportTasks has a program with a thread and a child, and tasks that only a broken recording has: each of them is the other's parent.
func TestReportTasks(t *testing.T) {
	fork := func(parent, pid, tid int32) perfdata.Value {
		return &perfdata.Fork{PID: pid, TID: tid, ParentPID: parent, ParentTID: parent}
	}
	file := func(pid int32, start, offset uint64, protection, flags uint32) perfdata.Value {
		return &perfdata.Mmap2{PID: pid, TID: pid, Start: start, Length: 0x1000, Offset: offset, Inode: 17,
			Protection: protection, Flags: flags, Filename: "/bin/x"}
	}
	input := writeRecords(t,
		&perfdata.Comm{PID: 10, TID: 10, Comm: "shell"},
		file(10, 0x1000, 0, 4|1, 2),
		fork(10, 10, 11), fork(10, 12, 12),
		&perfdata.Comm{PID: 12, TID: 12, Comm: "child"},
		file(12, 0x3000, 0x2000, 2|1, 1),
		&perfdata.Exit{PID: 12, TID: 12, ParentPID: 10, ParentTID: 10},
		&perfdata.Sample{SampleID: perfdata.SampleID{PID: 13, TID: 13}},
		fork(21, 20, 20), fork(20, 21, 21),
	)
	want := `#      pid      tid     ppid  comm
         0        0       -1 |swapper
        10       10       -1 | shell
                                 1000-2000 r-xp 00000000 17 /bin/x
        10       11       10 |  shell
                                  1000-2000 r-xp 00000000 17 /bin/x
        12       12       10 |  child
                                  1000-2000 r-xp 00000000 17 /bin/x
                                  3000-4000 rw-s 00002000 17 /bin/x
        13       13       -1 | :13
        20       20       21 | :20
        21       21       20 |  :21
`
	if got := runHere(t, "report", "-i", input, "--mmaps"); got.status != 0 || got.stderr != "" || got.stdout != want {
		t.Errorf("status %d, %s (-want +got):\n%s", got.status, got.stderr, cmp.Diff(want, got.stdout))
	}
	tasks := regexp.MustCompile(`(?m)^ +\S+-\S+ .*\n`).ReplaceAllString(want, "")
	if got := runHere(t, "report", "-i", input, "--tasks"); got.status != 0 || got.stdout != tasks {
		t.Errorf("status %d, %s (-want +got):\n%s", got.status, got.stderr, cmp.Diff(tasks, got.stdout))
	}
}

// TestReportLongTasks has a chain of parents that is too long to be indented.
func TestReportLongTasks(t *testing.T) {
	var records []perfdata.Value
	for i := int32(1); i <= 1000; i++ {
		records = append(records, &perfdata.Fork{PID: i, TID: i, ParentPID: i - 1, ParentTID: i - 1})
	}
	got := runHere(t, "report", "-i", writeRecords(t, records...), "--tasks")
	if lines := strings.Count(got.stdout, "\n"); lines != 1002 || len(got.stdout) > 1002*(40+maxTaskIndent) {
		t.Errorf("%d lines, %d bytes", lines, len(got.stdout))
	}
}

// TestReportTasksBesidePerf compares the tasks and mappings of small recordings. perf 7.2 shows all mappings as shared, and nothing in place of
// the inode of those that have none.
func TestReportTasksBesidePerf(t *testing.T) {
	perf := require.NewestPerf(t)
	shared, noInode := regexp.MustCompile(`(?m)^( +\S+-\S+ ...)[ps]`), regexp.MustCompile(`(?m)^( +\S+-\S+ \S+ \S+ ) `)
	plain := func(text []byte) string {
		return noInode.ReplaceAllString(shared.ReplaceAllString(string(text), "${1}?"), "${1}0 ")
	}
	for _, name := range []string{"callchain", "group", "zstd", "tracepoint", "bpf", "dwarf", "regs", "buildid", "pipe"} {
		file, err := filepath.Abs(filepath.Join(recordings, name+".data"))
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"--tasks", "--mmaps"} {
			want, got := output(t, exec.Command(perf), "report", "--stdio", "-i", file, flag), output(t, bperf(), "report", "-i", file, flag)
			if diff := cmp.Diff(plain(want), plain(got)); diff != "" || len(want) < 100 {
				t.Errorf("%s %s (-perf +bperf):\n%s", flag, name, diff)
			}
		}
	}
}
