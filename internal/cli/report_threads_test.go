package cli

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// threadRecording writes counts of threads that ended: of one of them several, which are added up, and of one without a second event.
func threadRecording(t *testing.T) string {
	t.Helper()
	var events []*perfdata.Event
	for i, name := range []string{"cpu-clock", "faults"} {
		events = append(events, &perfdata.Event{Name: name, IDs: []uint64{uint64(i + 1), uint64(i + 11)}, Attr: perfdata.Attr{
			Type: perfdata.TypeSoftware, SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll | perfdata.AttrInheritStat, ReadFormat: perfdata.ReadID,
			SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleIdentifier}})
	}
	return perffile.Write(t, events, nil, func(w *perfdata.Writer) {
		w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 7, TID: 7, Time: 1, ID: 1}, IP: 0x1000})
		for i, read := range []struct {
			pid, tid  int32
			id, value uint64
		}{{7, 8, 2, 5}, {7, 8, 1, 1000}, {7, 8, 11, 234}, {1 << 22, 7, 11, 9_876_543_210}, {7, 7, 12, 6}, {7, 7, 1, 0}} {
			id := perfdata.SampleID{PID: read.pid, TID: read.tid, Time: uint64(i + 2), ID: read.id}
			w.Write(0, &perfdata.Read{SampleID: id, PID: read.pid, TID: read.tid,
				Readings: perfdata.Readings{Format: perfdata.ReadID, Values: []perfdata.Reading{{Value: read.value, ID: read.id}}}})
		}
	})
}

// TestReportThreads prints the counts of threads in the order in which they ended.
func TestReportThreads(t *testing.T) {
	require.NoKernel(t)
	const want = `
#     PID  TID  faults   cpu-clock
        7    8       5        1234
  4194304    7       0  9876543210
        7    7       6           0
`
	input := threadRecording(t)
	got := runHere(t, "report", "-T", "-i", input)
	if got.status != 0 || !strings.HasSuffix(got.stdout, "[.] 0x0000000000001000\n\n"+want) {
		t.Errorf("%+v", got)
	}
	if got := runHere(t, "report", "-T", "-q", "-i", filepath.Join(recordings, "callchain.data")); !strings.HasSuffix(got.stdout, "\n\n# PID  TID\n") {
		t.Errorf("of a recording without counts of threads: %s", got.stdout)
	}
}

// TestReportThreadsBesidePerf compares the table with that of perf 6.1 and a newer one: of a written recording, and of those of all
// recorders.
func TestReportThreadsBesidePerf(t *testing.T) {
	require.Root(t)
	perfs := []string{distributionPerf(t), require.NewestPerf(t)}
	inputs := []string{threadRecording(t)}
	for _, recorder := range []*exec.Cmd{recordCommand(t), exec.Command(perfs[0], "record", "-N", "--no-bpf-event")} {
		file := filepath.Join(t.TempDir(), "perf.data")
		output(t, recorder, slices.Concat(recorder.Args[1:], []string{"-q", "-s", "-e", "cpu-clock:u", "-e", "page-faults", "-o", file,
			"sh", "-c", "sleep 0.01 & ls / >/dev/null; wait; ls / >/dev/null"})...)
		inputs = append(inputs, file)
	}
	for i, input := range inputs {
		args := []string{"report", "--stdio", "-T", "-q", "-s", "comm", "-i", input}
		_, ours, _ := strings.Cut(string(output(t, bperf(), args...)), " PID ")
		for _, perf := range perfs {
			_, theirs, _ := strings.Cut(string(output(t, exec.Command(perf), args...)), " PID ")
			if diff := cmp.Diff(theirs, ours); diff != "" || strings.Count(theirs, "\n") < 4 {
				t.Errorf("recording %d (-%s +bperf):\n%s", i, perf, diff)
			}
		}
	}
}

// TestThreadCountsLimit counts what the table has no room for.
func TestThreadCountsLimit(t *testing.T) {
	require.NoKernel(t)
	events := []*perfdata.Event{{Name: "a"}, {Name: "b", Index: 1}}
	c := newThreadCounts(nil)
	c.most = 4
	for i, e := range []int{0, 0, 0, 1, 0, 0, 1} { // three threads of one event leave no room for a second one
		readings := perfdata.Readings{Values: []perfdata.Reading{{Value: 3}}}
		c.add(&perfdata.Record{Event: events[e], Value: &perfdata.Read{TID: int32(i), Readings: readings}})
	}
	var notes, table strings.Builder
	c.note(&notes)
	if err := c.print(&table); err != nil {
		t.Fatal(err)
	}
	want := "# PID  TID  a\n    0    0  3\n    0    1  3\n    0    2  3\n    0    4  3\n"
	if diff := cmp.Diff(want, table.String()); diff != "" || notes.String() != "3 counts of threads are left out: the table has room for 4\n" {
		t.Errorf("%s%s", notes.String(), diff)
	}
}
