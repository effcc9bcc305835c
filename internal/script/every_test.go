package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// everyType writes a recording with a record of each type, and with every part of a sample.
func everyType(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const base = perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SamplePeriod
	event := func(id uint64, name string, types perfdata.SampleType, more perfdata.Attr) *perfdata.Event {
		more.Type, more.SamplePeriod, more.SampleType = perfdata.TypeSoftware, 1000, base|types
		more.Flags |= perfdata.AttrSampleIDAll
		return &perfdata.Event{Name: name, IDs: []uint64{id, id + 1}, Attr: more}
	}
	const branches = perfdata.BranchAny | perfdata.BranchTypeSave
	events := []*perfdata.Event{
		event(10, "cpu-clock", perfdata.SampleCPU|perfdata.SampleCallchain, perfdata.Attr{}),
		event(20, "memory", perfdata.SampleAddr|perfdata.SampleWeightStruct|perfdata.SampleDataSrc|perfdata.SampleTransaction|perfdata.SamplePhysAddr|
			perfdata.SampleDataPageSize|perfdata.SampleCodePageSize|perfdata.SampleCgroup, perfdata.Attr{}),
		event(30, "weight", perfdata.SampleWeight, perfdata.Attr{}),
		event(40, "branches", perfdata.SampleBranchStack, perfdata.Attr{BranchSampleType: branches}),
		event(50, "calls", perfdata.SampleBranchStack|perfdata.SampleCallchain, perfdata.Attr{BranchSampleType: branches | perfdata.BranchCallStack}),
		event(60, "group", perfdata.SampleRead, perfdata.Attr{ReadFormat: perfdata.ReadGroup | perfdata.ReadID | perfdata.ReadLost |
			perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning}),
		event(70, "reading", perfdata.SampleRead, perfdata.Attr{ReadFormat: perfdata.ReadID | perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning,
			Flags: perfdata.AttrInheritStat}),
		event(80, "state", perfdata.SampleRegsUser|perfdata.SampleRegsIntr|perfdata.SampleStackUser, perfdata.Attr{SampleRegsUser: 0x1ff, SampleRegsIntr: 0xff0003,
			SampleStackUser: 16}),
		event(90, "raw", perfdata.SampleRaw, perfdata.Attr{}),
	}
	w, err := perfdata.NewWriter(file, perfdata.Options{Events: events})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetFeature(perfdata.FeatureArch, perfdata.Text("x86_64")); err != nil {
		t.Fatal(err)
	}
	time := uint64(1e9)
	at := func(id uint64) perfdata.SampleID {
		time += 1000
		return perfdata.SampleID{ID: id, PID: 100, TID: 101, Time: time, CPU: 1}
	}
	for _, v := range kernelRecords(at) {
		w.Write(perfdata.MiscUser, v)
	}
	for _, v := range perfsRecords() {
		w.Write(0, v)
	}
	for _, s := range everyPart(at) {
		w.Write(perfdata.MiscUser, s)
	}
	for _, mode := range []perfdata.Misc{perfdata.MiscUnknown, perfdata.MiscKernel, perfdata.MiscHypervisor, perfdata.MiscUser | perfdata.MiscExactIP} {
		w.Write(mode, &perfdata.Sample{SampleID: at(30), IP: 0xffffffff81000123, Period: 1})
	}
	if err := w.Close(); err != nil { // reports the errors of all writes
		t.Fatal(err)
	}
}

func kernelRecords(at func(uint64) perfdata.SampleID) []perfdata.Value {
	return []perfdata.Value{
		&perfdata.Mmap{SampleID: at(10), PID: -1, Start: 0xffffffff81000000, Length: 0x1000000, Offset: 0xffffffff81000000, Filename: "[kernel.kallsyms]_text"},
		&perfdata.Comm{SampleID: at(10), PID: 100, TID: 100, Comm: "worker"},
		&perfdata.Comm{SampleID: at(10), PID: 100, TID: 101, Exec: true, Comm: "worker"},
		&perfdata.Fork{SampleID: at(10), PID: 100, TID: 102, ParentPID: 100, ParentTID: 100},
		&perfdata.Mmap{SampleID: at(10), PID: 100, TID: 101, Start: 0x1000, Length: 0x1000, Data: true, Filename: "/data"},
		&perfdata.Mmap2{SampleID: at(10), PID: 100, TID: 101, Start: 0x400000, Length: 0x1000, Offset: 0x1000, Major: 8, Minor: 17, Inode: 5, Protection: 5, Flags: 2,
			Filename: "/none/program"},
		&perfdata.Mmap2{SampleID: at(10), PID: 100, TID: 101, Start: 0x500000, Length: 0x1000, BuildID: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
			Protection: 7, Flags: 1, Filename: "/none/library"},
		&perfdata.Lost{SampleID: at(10), EventID: 10, Records: 7},
		&perfdata.LostSamples{SampleID: at(20), Samples: 9},
		&perfdata.LostSamples{SampleID: at(10), Samples: 9, BPF: true},
		&perfdata.Throttle{SampleID: at(10), EventTime: 5, EventID: 10, EventStreamID: 11},
		&perfdata.Unthrottle{SampleID: at(10), EventTime: 6, EventID: 10, EventStreamID: 11},
		&perfdata.Read{SampleID: at(70), PID: 100, TID: 101, Readings: perfdata.Readings{Format: 7, Enabled: 2, Running: 1, Values: []perfdata.Reading{{Value: 5, ID: 70}}}},
		&perfdata.Switch{SampleID: at(10), Out: true, Preempt: true},
		&perfdata.Switch{SampleID: at(10)},
		&perfdata.SwitchCPUWide{SampleID: at(10), Out: true, PID: 3, TID: 4},
		&perfdata.SwitchCPUWide{SampleID: at(10), PID: 3, TID: 4},
		&perfdata.Namespaces{SampleID: at(10), PID: 100, TID: 101, Links: make([]perfdata.NamespaceLink, 7)},
		&perfdata.KSymbol{SampleID: at(10), Addr: 0xffffffffc0001000, Size: 64, Type: perfdata.KSymbolBPF, Name: "bpf_prog_1"},
		&perfdata.BPFEvent{SampleID: at(10), Type: 1, ID: 12},
		&perfdata.Cgroup{SampleID: at(10), ID: 5, Path: "/here"},
		&perfdata.TextPoke{SampleID: at(10), Addr: 0xffffffff81000100, Old: []byte{0x0f, 0x1f}, New: []byte{0xcc, 0x90, 0x90}},
		&perfdata.Aux{SampleID: at(10), Offset: 16, Size: 32, Flags: 3},
		&perfdata.ITraceStart{SampleID: at(10), PID: 100, TID: 101},
		&perfdata.AuxOutputHWID{SampleID: at(10), HWID: 4},
		&perfdata.CallchainDeferred{SampleID: at(10), Cookie: 77, Callchain: []uint64{perfdata.ContextUser, 0x400010}},
	}
}

func perfsRecords() []perfdata.Value {
	return []perfdata.Value{
		&perfdata.FinishedInit{},
		&perfdata.IDIndex{Entries: []perfdata.IDIndexEntry{{ID: 10, Index: 0, CPU: -1, TID: 101}, {ID: 11, Index: 1, CPU: 1, TID: -1}}},
		&perfdata.ThreadMap{Threads: []perfdata.MappedThread{{TID: 100, Comm: "worker"}, {TID: 101}}},
		&perfdata.CPUMap{CPUs: []int{0, 1, 2, 5}},
		&perfdata.EventUpdate{Kind: perfdata.EventUpdateUnit, ID: 10, Unit: "msec"},
		&perfdata.EventUpdate{Kind: perfdata.EventUpdateScale, ID: 10, Scale: 1e-6},
		&perfdata.EventUpdate{Kind: perfdata.EventUpdateName, ID: 10, Name: "other"},
		&perfdata.EventUpdate{Kind: perfdata.EventUpdateCPUs, ID: 10, CPUs: perfdata.CPUMap{CPUs: []int{0, 3}}},
		&perfdata.TimeConv{Shift: 1, Mult: 2, Zero: 3},
		&perfdata.HeaderBuildID{PID: -1, BuildID: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, Filename: "/none/program"},
		&perfdata.BPFMetadata{Program: "program", Entries: []perfdata.BPFMetadataEntry{{Key: "version", Value: "1.2"}}},
		&perfdata.FinishedRound{},
	}
}

func everyPart(at func(uint64) perfdata.SampleID) []*perfdata.Sample {
	chain := []uint64{perfdata.ContextKernel, 0xffffffff81000200, perfdata.ContextUser, 0x400010, 0x500020}
	branches := []perfdata.Branch{{From: 0x400010, To: 0x500020, Flags: 1}, {From: 0xffffffff81000200, To: 0x400030, Flags: 2 | 4 | 5<<4 | 1<<20}, {From: 0x400040,
		To: 0x400050, Flags: 8 | 4<<20}}
	return []*perfdata.Sample{
		{SampleID: at(10), IP: 0x400010, Period: 1000, Callchain: chain},
		{SampleID: at(10), IP: 0x400010, Period: 1000, Callchain: []uint64{perfdata.ContextHV, 1, perfdata.ContextGuest, 2, perfdata.ContextGuestKernel, 3,
			perfdata.ContextGuestUser, 4, perfdata.ContextUserDeferred}},
		{SampleID: at(20), IP: 0x500010, Period: 1, Addr: 0x1010, Weight: 3 | 4<<32 | 5<<48, DataSource: perfdata.DataSourceNA, Transaction: 6, PhysAddr: 0x77,
			DataPageSize: 4096, CodePageSize: 2 << 20, Cgroup: 5},
		{SampleID: at(30), IP: 0x700000, Period: 1, Weight: 8},
		{SampleID: at(40), IP: 0x400010, Period: 1, Branches: branches},
		{SampleID: at(50), IP: 0x400010, Period: 1, Callchain: chain, Branches: branches[:1]},
		{SampleID: at(60), IP: 0x400010, Period: 1, Read: perfdata.Readings{Format: 31, Enabled: 100, Running: 50, Values: []perfdata.Reading{{Value: 3, ID: 60},
			{Value: 4, ID: 30, Lost: 1}}}},
		{SampleID: at(70), IP: 0x400010, Period: 1, Read: perfdata.Readings{Format: 7, Enabled: 100, Running: 50, Values: []perfdata.Reading{{Value: 3, ID: 70}}}},
		{SampleID: at(80), IP: 0x400010, Period: 1, UserRegs: perfdata.Registers{ABI: 2, Mask: 0x1ff, Values: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 0x400010}},
			IntrRegs: perfdata.Registers{ABI: 1, Mask: 0xff0003, Values: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, UserStack: []byte("0123456789abcdef")},
		{SampleID: at(80), IP: 0x400010, Period: 1},
		{SampleID: at(90), IP: 0x400010, Period: 1, Raw: []byte("raw!")},
	}
}

// TestDump prints all records of recordings as perf's -D does.
func TestDump(t *testing.T) {
	every := filepath.Join(t.TempDir(), "perf.data")
	everyType(t, every)
	for _, tt := range []struct {
		name, path string
		o          Options
	}{
		{"dump", every, Options{}},
		{"dump-pipe", "../../perfdata/testdata/pipetracepoint.data", Options{}},
		{"dump-unsorted", "../../perfdata/testdata/group.data", Options{Unsorted: true}},
	} {
		tt.o.Dump, tt.o.Fields, tt.o.Input = true, NewSelection(), "perf.data"
		tt.o.AttrText = func(a *perfdata.Attr) string { return fmt.Sprintf(", type = %d", a.Type) }
		got := printed(t, tt.path, tt.o, elsewhere(t))
		golden.Compare(t, filepath.Join("testdata", tt.name+".golden"), string(got))
	}
}

// TestDumpAsPerf compares the dump of recordings with perf's, except what perf calls the features of pipes.
func TestDumpAsPerf(t *testing.T) {
	t.Parallel()
	path := require.NewestPerf(t)
	every := filepath.Join(t.TempDir(), "perf.data")
	everyType(t, every)
	recordings, err := filepath.Glob("../../perfdata/testdata/*.data")
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`(?m)^(-1 -1|0|0 0) 0x?[0-9a-f]* \[0x[0-9a-f]*\]: PERF_RECORD_(ATTR|FEATURE).*$`)
	values := regexp.MustCompile(`(?m)^(#.*)?\n`) // the features, and the empty lines after them
	plain := func(text []byte) string { return values.ReplaceAllString(other.ReplaceAllString(string(text), ""), "") }
	for _, recording := range append(recordings, every) {
		if filepath.Base(recording) == "stat.data" {
			continue // perf 7.2 does not read it
		}
		if recording, err = filepath.Abs(recording); err != nil {
			t.Fatal(err)
		}
		o := Options{Dump: true, NoChains: true, Fields: NewSelection(), Input: recording, AttrText: func(*perfdata.Attr) string { return "" }}
		if err := o.Fields.Parse("comm"); err != nil {
			t.Fatal(err)
		}
		option := "-D"
		if filepath.Base(recording) == "group.data" {
			o.Unsorted, option = true, "--dump-unsorted-raw-trace"
		}
		want := runPerf(t, path, "script", "-f", "-G", option, "-F", "comm", "-i", recording)
		got := printed(t, recording, o, replay.Options{NoInline: true})
		if diff := cmp.Diff(plain(want), plain(got)); diff != "" {
			t.Errorf("%s %s (-perf +ours):\n%.4000s", option, recording, diff)
		}
	}
}
