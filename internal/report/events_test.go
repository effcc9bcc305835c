package report

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
)

// TestEvents lists recordings that perf made. TestEvlistBesidePerf compares the same output with perf's.
func TestEvents(t *testing.T) {
	for name, o := range map[string]EventsOptions{
		"group": {}, "group-freq": {Rate: true}, "group-group": {Groups: true}, "regs-attr": {Attr: true},
		"tracepoint-fields": {TraceFields: true}, "pipetracepoint-attr": {Attr: true, TraceFields: true},
	} {
		file, _, _ := strings.Cut(name, "-")
		r, err := perfdata.Open(filepath.Join("../../perfdata/testdata", file+".data"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		golden.Compare(t, filepath.Join("testdata", "events-"+name+".golden"), events(t, r, o))
	}
}

// TestEventFields prints events with every field, every event that the kernel names, and groups that are out of range.
func TestEventFields(t *testing.T) {
	full := perfdata.Attr{Type: perfdata.TypeBreakpoint, SamplePeriod: 7, SampleType: 1<<26 - 1, ReadFormat: 1<<6 - 1, Flags: 1<<40 - 1,
		WakeupEvents: 3, BPType: 3, Config1: 0x11, Config2: 0x22,
		BranchSampleType: 1<<21 - 1, SampleRegsUser: 5, SampleStackUser: 4096, ClockID: -5, SampleRegsIntr: 6,
		AuxWatermark: 8, SampleMaxStack: 9, AuxSampleSize: 10, AuxAction: 7, SigData: 11, Config3: 12, Config4: 13}
	all := []*perfdata.Event{{Name: "all fields", Attr: full}, {}}
	for i := range uint64(11) {
		all = append(all, &perfdata.Event{Name: "hardware", Attr: perfdata.Attr{Config: i}})
	}
	for i := range uint64(13) {
		all = append(all, &perfdata.Event{Name: "software", Attr: perfdata.Attr{Type: perfdata.TypeSoftware, Config: i}})
	}
	for _, config := range []uint64{0, 0x10102, 0x206, 0x20000, 0x300, 7, 0x400010102, 0x500010102} {
		all = append(all, &perfdata.Event{Name: "cache", Attr: perfdata.Attr{Type: perfdata.TypeHWCache, Config: config}})
	}
	others := []perfdata.Attr{{Config: 0xa00000001}, {Type: perfdata.TypeRaw, Config: 0x1234}, {Type: perfdata.TypeTracepoint, Config: 5}, {Type: 10},
		{Type: 11}}
	for _, a := range others {
		all = append(all, &perfdata.Event{Name: "other", Attr: a})
	}
	for i, e := range all {
		e.IDs = []uint64{uint64(i) + 1}
	}
	last := uint32(len(all) - 1)
	r := written(t, perfdata.Options{Events: all, StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{
		perfdata.FeaturePMUMappings: perfdata.PMUMappings{{Type: 4, Name: "cpu"}, {Type: 10, Name: "cpu_atom"}},
		perfdata.FeatureGroupDesc: perfdata.GroupDescriptions{{Name: "named", Leader: 2, Members: 2}, {Name: "{anon_group}", Leader: 3, Members: 2},
			{Name: "{anon_group}", Leader: last - 1, Members: 1 << 31}, {Name: "{anon_group}", Leader: last + 1, Members: 2}},
	}})
	got := events(t, r, EventsOptions{Attr: true}) + events(t, r, EventsOptions{Groups: true})
	golden.Compare(t, filepath.Join("testdata", "events-fields.golden"), got)
}

// TestEventsBadFeature checks that a damaged feature does not hide the events, and that the error is reported.
func TestEventsBadFeature(t *testing.T) {
	features := map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeaturePMUMappings: perfdata.Opaque{1, 2, 3}}
	r := written(t, perfdata.Options{Events: []*perfdata.Event{{Name: "cycles", IDs: []uint64{1}}}, StartFeatures: features})
	var out strings.Builder
	if err := Events(&out, r, EventsOptions{}); err == nil || out.String() != "cycles\n" {
		t.Errorf("%v, printed %q", err, &out)
	}
	if err := Events(failing{}, r, EventsOptions{}); !errors.Is(err, errFull) {
		t.Errorf("%v, want %v", err, errFull)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// written returns a reader of a pipe without records.
func written(t *testing.T, o perfdata.Options) *perfdata.Reader {
	t.Helper()
	var file bytes.Buffer
	w, err := perfdata.NewPipeWriter(&file, o)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := perfdata.NewPipeReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func events(t *testing.T, r *perfdata.Reader, o EventsOptions) string {
	t.Helper()
	var out strings.Builder
	if err := Events(&out, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
