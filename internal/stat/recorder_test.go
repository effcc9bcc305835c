package stat

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// recordedSession is a session that is recorded.
type recordedSession struct {
	cfg    Config
	events string
	target target.Target
	cells  []count.Cell
}

// record records one round, or two intervals. The second one doubles the readings.
func (s *recordedSession) record(t *testing.T) *perfdata.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counts.data")
	s.cfg.Recording = &Recording{Create: func() (io.WriteCloser, error) { return os.Create(path) }, Pipe: s.cfg.Recording != nil,
		Features: map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureHostname: perfdata.Text(strings.Repeat("x", 1<<17)), perfdata.FeatureCmdline: perfdata.CommandLine{"stat", "record"},
			perfdata.FeatureStat: perfdata.Flag{}, perfdata.FeatureVersion: perfdata.Text("v1.2.3")}}
	c := &counters{events: parseEvents(t, s.events), target: s.target}
	var notes []string
	s.cfg.Notify = func(text string) { notes = append(notes, text) }
	r, err := newRecorder(&s.cfg, c, s.cells)
	if err != nil {
		t.Fatal(err)
	}
	rounds := uint64(1)
	if s.cfg.Interval > 0 {
		rounds = 2
	}
	for round := range rounds {
		cells := make([]count.Cell, len(s.cells))
		for i, cell := range s.cells {
			cells[i] = cell
			cells[i].Reading = perfevent.Reading{Value: cell.Value << round, Enabled: cell.Enabled << round, Running: cell.Running << round}
		}
		if err := r.round(cells, time.Duration(round+1)*time.Second, s.cfg.Interval == 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if left := strings.Contains(strings.Join(notes, ""), "left out: HOSTNAME;"); left != s.cfg.Recording.Pipe {
		t.Errorf("notes %q; pipe: %t", notes, s.cfg.Recording.Pipe)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	reader, err := perfdata.Open(path)
	if s.cfg.Recording.Pipe {
		reader, err = perfdata.NewPipeReader(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

func cellOf(ev, cpu, thread int, value uint64) count.Cell {
	return count.Cell{Event: ev, CPU: cpu, Thread: thread, Cgroup: count.None, Program: count.None,
		Reading: perfevent.Reading{Value: value, Enabled: 2 * value, Running: value}}
}

// TestRecord reports what sessions record: CPUs with a tool event, threads, a pipe with an event that could not be counted.
func TestRecord(t *testing.T) {
	require.NoKernel(t)
	const none = count.None
	threads := []target.Thread{{TID: 7, Comm: "spin"}, {TID: 9, Comm: "a-b"}}
	for name, s := range map[string]*recordedSession{
		"cpus": {cfg: Config{Aggregation: AggregateNone, Interval: time.Second, Inherit: true, AllUser: true}, events: "task-clock,faults,duration_time",
			target: target.Target{CPUs: []int{1, 3}}, cells: []count.Cell{cellOf(0, 1, none, 500e6), cellOf(0, 3, none, 1e9), cellOf(1, 1, none, 5), cellOf(1, 3, none, 6),
				cellOf(2, none, none, 1e9)}},
		"threads": {cfg: Config{Aggregation: AggregateThread, Raw: true}, events: "faults", target: target.Target{Threads: threads},
			cells: []count.Cell{cellOf(0, none, 0, 5), cellOf(0, none, 1, 6)}},
		"pipe": {cfg: Config{Aggregation: AggregateGlobal, Recording: &Recording{}}, events: "faults,cycles", target: target.Target{Threads: threads[:1]},
			cells: []count.Cell{cellOf(0, none, 0, 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := reported(t, s.record(t), ReportConfig{}, NewText)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", "report", "record-"+name+".golden"), text)
		})
	}
}

// TestRecordedAttributes checks the attributes of recorded events, and the order of the records.
func TestRecordedAttributes(t *testing.T) {
	require.NoKernel(t)
	s := &recordedSession{cfg: Config{AllKernel: true, Inherit: true, Aggregation: AggregateGlobal}, events: "faults,user_time",
		target: target.Target{CPUs: []int{0}}, cells: []count.Cell{cellOf(0, 0, count.None, 5), cellOf(1, count.None, count.None, 6)}}
	reader := s.record(t)
	defer reader.Close()
	for i, want := range []perfdata.Attr{{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults}, {Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy}} {
		want.Size, want.SampleType, want.ReadFormat = 112, perfdata.SampleIdentifier, perfevent.ReadFormatTimes
		want.Flags = perfdata.AttrDisabled | perfdata.AttrInherit | perfdata.AttrExcludeUser
		got := reader.Events()[i].Attr
		if got.Type != want.Type || got.Config != want.Config || got.SampleType != want.SampleType || got.ReadFormat != want.ReadFormat || got.Flags != want.Flags {
			t.Errorf("event %d: %+v, want %+v", i, got, want)
		}
	}
	if got := recordedEvent(reader.Events()[1], nil).Tool; got != event.UserTime {
		t.Errorf("user_time is read as tool %v", got)
	}
	var types []perfdata.RecordType
	for record, err := range reader.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if record.Type != perfdata.RecordEventUpdate {
			types = append(types, record.Type)
		}
	}
	round := []perfdata.RecordType{perfdata.RecordStat, perfdata.RecordStat, perfdata.RecordStatRound}
	want := append([]perfdata.RecordType{perfdata.RecordThreadMap, perfdata.RecordCPUMap, perfdata.RecordStatConfig}, round...)
	if diff := cmp.Diff(want, types); diff != "" {
		t.Error(diff)
	}
	if ids := reader.Features().IDs(); len(ids) == 0 || ids[len(ids)-1] > perfdata.FeatureStat {
		t.Errorf("features %v: perf refuses recordings of stat with an empty feature COMPRESSED", ids)
	}
}

// TestRecordedConfig reads the recorded aggregation back. Modes with one number in all versions of perf have no level, which perf before 6.5
// does not know.
func TestRecordedConfig(t *testing.T) {
	require.NoKernel(t)
	for by := AggregateGlobal; by <= AggregateThread; by++ {
		r := &recorder{cfg: &Config{Aggregation: by, Interval: time.Second, CacheLevel: 2}}
		rounds := recorded.New(nil, nil)
		if _, err := rounds.Add(&perfdata.Record{Value: r.config()}); err != nil {
			t.Fatal(err)
		}
		alike := by == AggregateGlobal || by == AggregateNone || by == AggregateSocket || by == AggregateDie
		if got, known := recordedAggregation(&rounds.Config, "v1.2.3"); got != by || !known || rounds.Config.HasLevel == alike || rounds.Config.Interval != 1000 {
			t.Errorf("aggregation %d: %+v is %d", by, rounds.Config, got)
		}
	}
}

// TestRecordRefuses checks what cannot be recorded before the recording is created.
func TestRecordRefuses(t *testing.T) {
	require.NoKernel(t)
	cfg := &Config{Recording: &Recording{Create: func() (io.WriteCloser, error) { t.Error("created"); return nil, os.ErrExist }}}
	for want, c := range map[string]*counters{
		"2701 threads cannot be recorded: a recording has room for 2700; select fewer": {events: parseEvents(t, "faults"), target: target.Target{Threads: make([]target.Thread, 2701)}},
		"without events there is nothing to record: leave out -n":                      {},
	} {
		if _, err := newRecorder(cfg, c, nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
