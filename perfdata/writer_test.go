package perfdata

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bperf/bperf/test/require"
)

// memory is a file in memory with a limited size.
type memory struct {
	b    []byte
	at   int64
	room int
}

var errFull = errors.New("no space left on device")

func (m *memory) Write(b []byte) (int, error) {
	n, err := m.WriteAt(b, m.at)
	m.at += int64(n)
	return n, err
}

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	n := min(len(b), m.room-int(at))
	if end := int(at) + n; end > len(m.b) {
		m.b = append(m.b, make([]byte, end-len(m.b))...)
	}
	copy(m.b[at:], b[:n])
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func (m *memory) Truncate(size int64) error {
	m.b = m.b[:size]
	return nil
}

func (m *memory) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		m.at = offset
	case io.SeekEnd:
		m.at = int64(len(m.b)) + offset
	default:
		return 0, errors.New("not here")
	}
	return m.at, nil
}

// copyRecording copies a recording with a Writer.
func copyRecording(t testing.TB, path string, begin func(Options) (*Writer, error), compress int) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	features := map[FeatureID]FeatureValue{}
	for _, id := range r.Features().IDs() {
		v, err := r.Features().Get(id)
		if err != nil {
			t.Fatal(err)
		}
		features[id] = v
	}
	delete(features, FeatureCompressed) // describes the original, not the copy
	w, err := begin(Options{Events: r.Events(), Compress: compress, StartFeatures: features})
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		switch rec.Type {
		case RecordHeaderAttr, RecordHeaderFeature, RecordHeaderTracingData:
			continue
		}
		if rec.Type >= firstUserRecord {
			err = w.Write(rec.Misc, rec.Value)
		} else {
			half := len(rec.Raw) / 2 // as at the end of a ring buffer
			err = w.Append(rec.Raw[:half], rec.Raw[half:])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if w.file != nil {
		for id, v := range features {
			if err := w.SetFeature(id, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCopies copies every recording in each form and compares the copies: as read by this package and, if perf is installed, by perf.
func TestCopies(t *testing.T) {
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			want, wantInPerf := content(t, path), inPerf(t, path)
			for _, form := range []string{"file", "pipe", "compressed file", "compressed pipe"} {
				t.Run(form, func(t *testing.T) {
					copied := copyAs(t, path, form)
					if diff := cmp.Diff(want, content(t, copied)); diff != "" {
						t.Errorf("-original +copy\n%s", diff)
					}
					// perf script does not read recordings of perf stat from pipes, and perf prints BPF programs before it has their names.
					if strings.HasSuffix(form, "pipe") && (path == "testdata/stat.data" || path == "testdata/bpf.data") {
						return
					}
					if diff := cmp.Diff(wantInPerf, inPerf(t, copied)); diff != "" {
						t.Errorf("perf: -original +copy\n%s", diff)
					}
				})
			}
		})
	}
}

func copyAs(t *testing.T, path, form string) string {
	f, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begin := func(o Options) (*Writer, error) { return NewWriter(f, o) }
	if strings.HasSuffix(form, "pipe") {
		begin = func(o Options) (*Writer, error) { return NewPipeWriter(f, o) }
	}
	copyRecording(t, path, begin, 3*strings.Count(form, "compressed"))
	return f.Name()
}

// content returns the part of a recording that its copies must have, too.
func content(t *testing.T, path string) string {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var lines []string
	for line := range strings.Lines(dump(t, r)) {
		if !slices.ContainsFunc(formRecords, func(s string) bool { return strings.Contains(line, s) }) {
			lines = append(lines, attrSizes.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(lines, "")
}

// formRecords mark lines that depend on the form.
var formRecords = []string{" ATTR ", " FEATURE ", " EVENT_UPDATE ", " TRACING_DATA ", " BUILD_ID ", "COMPRESSED",
	"CPU_DOMAIN_INFO", " bytes, "}

// attrSizes matches the sizes of attributes and the zeros at the end of byte lists, which depend on the form.
var attrSizes = regexp.MustCompile(` Size:(112|120|128|144)\b|( 0)*\]`)

// inPerf returns perf's output for a recording; nothing if perf is not installed.
func inPerf(t *testing.T, path string) []string {
	perf, err := require.FindPerf()
	if err != nil {
		return nil
	}
	return append(perfLines(run(t, perf, "script", "--ns", "--show-mmap-events", "--show-task-events", "--show-bpf-events",
		"--show-namespace-events", "--show-switch-events", "-i", path)),
		perfLines(run(t, perf, "report", "--header-only", "-I", "-i", path))...)
}

// perfLines returns the lines of s except for those about the file itself.
func perfLines(s string) []string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		if !perfFileLine.MatchString(line) {
			lines = append(lines, perfAttrSize.ReplaceAllString(line, ""))
		}
	}
	return lines
}

var (
	perfFileLine = regexp.MustCompile(`^# (captured on|header version|data offset|data size|feat offset|missing features|compressed)|` +
		`^# event : name|^# =+$|^#$`)
	perfAttrSize = regexp.MustCompile(`, size = \d+`)
)

// everyValue returns a record of each type, with fields that differ from each other and from 0.
func everyValue() []Value {
	id := SampleID{PID: 1, TID: 2, Time: 3, ID: 40, StreamID: 5, CPU: 6}
	return []Value{
		&Mmap{id, -1, 0, 0x1000, 0x2000, 0x3000, true, "[kernel.kallsyms]_text"},
		&Mmap2{SampleID: id, PID: 7, TID: 8, Start: 9, Length: 10, Offset: 11, Major: 12, Minor: 13, Inode: 14, InodeGeneration: 15,
			Protection: 5, Flags: 2, Filename: "/usr/bin/true"},
		&Mmap2{SampleID: id, PID: 7, TID: 8, Start: 9, Length: 10, Offset: 11, BuildID: []byte("0123456789abcdef"),
			Protection: 5, Flags: 2, Data: true, Filename: "/usr/lib/libc.so.6"},
		&Comm{id, 7, 8, true, "fifteen letters"},
		&Fork{id, 7, 8, 9, 10, 11, true},
		&Exit{id, 7, 8, 9, 10, 11},
		&Lost{id, 7, 8},
		&LostSamples{id, 7, true},
		&Throttle{id, 7, 8, 9},
		&Unthrottle{id, 7, 8, 9},
		&Read{id, 7, 8, Readings{Format: everyAttr.ReadFormat, Enabled: 9, Running: 10, Values: []Reading{{11, 12, 13}, {14, 15, 16}}}},
		&Switch{id, true, true},
		&SwitchCPUWide{id, true, false, 7, 8},
		&Namespaces{id, 7, 8, []NamespaceLink{{9, 10}, {11, 12}}},
		&KSymbol{id, 0xffffffffc0000000, 64, KSymbolBPF, KSymbolUnregister, "bpf_prog_6deef7357e7b4530_name"},
		&BPFEvent{id, BPFEventLoad, 8, 9, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}},
		&Cgroup{id, 7, "/system.slice"},
		&TextPoke{id, 7, []byte{1, 2, 3}, []byte{4, 5}},
		&Aux{id, 7, 8, 9},
		&ITraceStart{id, 7, 8},
		&AuxOutputHWID{id, 7},
		&CallchainDeferred{id, 7, []uint64{ContextUser, 8, 9}},
		everySample(id),
		&FinishedRound{},
		&FinishedInit{},
		&IDIndex{[]IDIndexEntry{{7, 8, -1, 9}}, []IDIndexGuest{{10, 11}}},
		&AuxtraceInfo{7, []uint64{8, 9}},
		&AuxtraceError{7, 8, 9, 10, 11, 2, 12, 13, "message", 14, 15},
		&ThreadMap{[]MappedThread{{-1, ""}, {7, "name"}}},
		&CPUMap{true, []int{0, 1, 7}},
		&StatConfig{[]StatConfigTerm{{0, 7}, {1, 8}}},
		&Stat{40, -1, 7, 8, 9, 10},
		&StatRound{1, 7},
		&TimeConv{7, 8, 9, 10, 11, true, true, true},
		&TimeConv{Shift: 7, Mult: 8, Zero: 9},
		&BPFMetadata{"bpf_prog_6deef7357e7b4530_name", []BPFMetadataEntry{{"key", "value"}, {"version", "1.2"}}},
		&HeaderEventType{7, "cycles"},
		&HeaderBuildID{MiscUser, 7, []byte("0123456789abcdef0123"), "/usr/bin/true"},
		&Unknown{200, []byte("eight by")},
	}
}

// everyAttr has every bit of the sample type except SampleWeight, which SampleWeightStruct excludes, and SampleEventID, which repeats
// SampleIdentifier.
var everyAttr = Attr{
	Type: 4, Config: 0x1c2, SamplePeriod: 1000, SampleType: (SampleWeightStruct<<1 - 1) &^ (SampleWeight | SampleEventID),
	ReadFormat: ReadTotalTimeEnabled | ReadTotalTimeRunning | ReadID | ReadGroup | ReadLost,
	Flags:      AttrSampleIDAll | AttrPreciseIP2 | AttrInherit, BranchSampleType: BranchHWIndex | BranchCounters,
	SampleRegsUser: 0b10101, SampleRegsIntr: 0b11, SampleStackUser: 64, Config1: 1, Config2: 2, Config3: 3, Config4: 4, SigData: 5,
}

func everySample(id SampleID) *Sample {
	id.Fields = everyAttr.SampleType
	return &Sample{
		SampleID: id, IP: 7, Addr: 8, Period: 9,
		Read:          Readings{Format: everyAttr.ReadFormat, Enabled: 10, Running: 11, Values: []Reading{{12, 13, 14}, {15, 16, 17}}},
		Callchain:     []uint64{ContextKernel, 18, ContextUser, 19},
		Raw:           []byte("twelve bytes"),
		BranchHWIndex: 20, Branches: []Branch{{21, 22, 0x3a1}, {23, 24, 1}}, BranchCounters: []uint64{25, 26},
		UserRegs: Registers{2, 0b10101, []uint64{27, 28, 29}}, IntrRegs: Registers{1, 0b11, []uint64{30, 31}},
		UserStack: []byte("a stack of 24 bytes ...."), Weight: 32, DataSource: 33, Transaction: 34, PhysAddr: 35, Cgroup: 36,
		DataPageSize: 4096, CodePageSize: 8192, Aux: []byte("AUX data"),
	}
}

func TestWriteEveryValue(t *testing.T) {
	m := &memory{room: 1 << 20}
	w, err := NewWriter(m, Options{Events: []*Event{{Attr: everyAttr, IDs: []uint64{40, 41}, Name: "mem-loads"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range everyValue() {
		if err := w.Write(MiscUser, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, r := read(t, m.b)
	byType := func(a, b Value) int { return int(a.RecordType()) - int(b.RecordType()) }
	want := everyValue()
	slices.SortStableFunc(want, byType) // another test checks the order
	slices.SortStableFunc(got, byType)
	got = slices.DeleteFunc(got, func(v Value) bool { return v.RecordType() == RecordEventUpdate })
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), ignoreTrailerFields); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
	attr := everyAttr
	attr.Size = AttrSize
	if diff := cmp.Diff([]*Event{{Attr: attr, IDs: []uint64{40, 41}, Name: "mem-loads"}}, r.Events()); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
}

// TestTrailers writes and reads records of two events whose trailers differ.
func TestTrailers(t *testing.T) {
	attr := Attr{SampleType: SampleTID | SampleTime | SampleIdentifier, Flags: AttrSampleIDAll}
	withCPU := attr
	withCPU.SampleType |= SampleCPU
	m := &memory{room: 1 << 20}
	w, err := NewWriter(m, Options{Events: []*Event{{Attr: attr, IDs: []uint64{40}}, {Attr: withCPU, IDs: []uint64{41}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Value{
		&LostSamples{SampleID: SampleID{PID: 1, TID: 2, Time: 3, ID: 40}, Samples: 7},
		&LostSamples{SampleID: SampleID{PID: 1, TID: 2, Time: 4, ID: 41, CPU: 5}, Samples: 8},
		&Comm{SampleID: SampleID{PID: 1, TID: 2, Time: 5}, PID: 1, TID: 2, Comm: "of no event"},
	}
	for _, v := range want {
		if err := w.Write(0, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := read(t, m.b)
	if diff := cmp.Diff(want, got, ignoreTrailerFields); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
}

// ignoreTrailerFields ignores SampleID.Fields: it is not written, but follows from the event.
var ignoreTrailerFields = cmpopts.IgnoreFields(SampleID{}, "Fields")

// read returns copies of the values of all records.
func read(t *testing.T, b []byte) (values []Value, r *Reader) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, keep(rec.Value))
	}
	return values, r
}

// keep copies a value that is valid only as long as its record.
func keep(v Value) Value {
	switch v := v.(type) {
	case *Sample:
		return cloneSample(v)
	case *Unknown:
		return &Unknown{v.Type, bytes.Clone(v.Data)}
	}
	return v
}

func cloneSample(s *Sample) *Sample {
	c := *s
	c.Read.Values = slices.Clone(c.Read.Values)
	c.Callchain, c.Raw, c.Branches = slices.Clone(c.Callchain), bytes.Clone(c.Raw), slices.Clone(c.Branches)
	c.BranchCounters, c.UserStack, c.Aux = slices.Clone(c.BranchCounters), bytes.Clone(c.UserStack), bytes.Clone(c.Aux)
	c.UserRegs.Values, c.IntrRegs.Values = slices.Clone(c.UserRegs.Values), slices.Clone(c.IntrRegs.Values)
	return &c
}

// session writes a few rounds to a file and does not close it. It ignores errors: Close returns them.
func session(t testing.TB, m io.WriteSeeker, compress int) *Writer {
	attr := Attr{Type: 1, SampleType: SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleCallchain, Flags: AttrSampleIDAll}
	w, err := NewWriter(m, Options{Compress: compress, Events: []*Event{
		{Attr: attr, IDs: []uint64{40}, Name: "cpu-clock", Unit: "msec", Scale: 1e-6},
		{Attr: attr, IDs: []uint64{41}, Name: "page-faults:u"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(3) {
		for k := range uint64(6) {
			s := &Sample{SampleID: SampleID{ID: 40 + k%2, PID: 1, TID: 2, Time: 1000*round + 100*(10-k) + 1}, IP: k, Callchain: []uint64{k, k}}
			w.Append(appendRecord(nil, MiscUser, s, &attr))
		}
		w.Write(0, &FinishedRound{})
	}
	return w
}

// TestKilled truncates a file at every byte after its header. The rest must be readable, with the names of the events.
func TestKilled(t *testing.T) {
	for _, compress := range []int{0, 1} {
		m := &memory{room: 1 << 20}
		w := session(t, m, compress)
		complete := bytes.Clone(m.b)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		last := 0
		for size := int(w.header.data.offset()) + 160; size <= len(complete); size++ { // 160: the updates of the events
			values, r := read(t, complete[:size])
			if r.Events()[1].Name != "page-faults:u" || r.Events()[0].Unit != "msec" {
				t.Fatalf("%d of %d bytes: events %+v", size, len(complete), r.Events())
			}
			if !r.Stats().Truncated {
				t.Fatalf("%d of %d bytes: nothing says that the file is not complete", size, len(complete))
			}
			if len(values) < last {
				t.Fatalf("%d of %d bytes: %d records, of which there were %d before", size, len(complete), len(values), last)
			}
			last = len(values)
		}
		if want := 3*7 + 4; last != want { // with the updates of the events
			t.Errorf("%d records of %d", last, want)
		}
		if compress == 0 { // perf cannot decompress a recording without the feature COMPRESSED
			compareKilled(t, complete)
		}
	}
}

// compareKilled checks that perf reads a file that was not closed.
func compareKilled(t *testing.T, b []byte) {
	perf, err := require.FindPerf()
	if err != nil {
		return
	}
	path := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(run(t, perf, "script", "-i", path, "-F", "time,event"), "page-faults:u:"); got != 9 {
		t.Errorf("perf finds %d samples of page-faults:u in a file that was not closed, not 9", got)
	}
}

// TestFullDisk limits the room for the file to every possible size.
func TestFullDisk(t *testing.T) {
	m := &memory{room: 1 << 20}
	w := session(t, m, 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, last := int(w.header.data.offset()), 0
	for room := data + 160; room < len(m.b); room++ {
		full := &memory{room: room}
		w := session(t, full, 0)
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		values, r := read(t, full.b)
		if !r.Stats().Truncated {
			t.Fatalf("room for %d bytes: nothing says that the file is not complete", room)
		}
		if size := int(le.Uint64(full.b[dataSizeAt:])); data+size != len(full.b) || len(values) < last {
			t.Fatalf("room for %d bytes: %d bytes of data and %d records, of %d", room, size, len(values), len(full.b)-data)
		}
		last = len(values)
	}
	if want := 3*7 + 4; last != want { // with the updates of the events
		t.Errorf("%d records of %d", last, want)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, o := range []Options{{}, {Events: []*Event{{}}, Compress: 23}, {Events: []*Event{{}}, Compress: -1}} {
		if _, err := NewWriter(&memory{room: 1 << 20}, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	w, err := NewPipeWriter(io.Discard, Options{Events: []*Event{{}}})
	if err != nil {
		t.Fatal(err)
	}
	const most = (maxRecord - recordHeaderSize - 8) &^ 7
	for _, size := range []int{most, most + 8} {
		if err := w.SetFeature(FeatureBPFBTF, Opaque(make([]byte, size))); err != nil {
			t.Errorf("a feature of %d bytes: %v", size, err)
		}
	}
	if left := w.LeftOut(); left == nil || !strings.Contains(left.Error(), "1 are left out: BPF_BTF;") {
		t.Errorf("%v, want the longer one of both", left)
	}
	if err := w.Write(0, &Comm{Comm: strings.Repeat("x", 1<<16)}); err == nil {
		t.Error("a record of 64 KiB was written")
	}
}

// TestRecordsAreWholeWords checks that the size of each record is a multiple of 8: perf 7.2 reads no others.
func TestRecordsAreWholeWords(t *testing.T) {
	for _, v := range everyValue() {
		if b := appendRecord(nil, 0, v, &everyAttr); len(b)%8 != 0 || int(le.Uint16(b[6:])) != len(b) {
			t.Errorf("%s has %d bytes, and says %d", v.RecordType(), len(b), le.Uint16(b[6:]))
		}
	}
}
