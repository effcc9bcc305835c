package replay

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// someInfos returns two programs, one with two functions and one with one.
func someInfos() []*linear.Info {
	return []*linear.Info{
		{ID: 7, Name: "first", Tag: [8]byte{1}, Addresses: []uint64{0x1000, 0x2000}},
		{ID: 8, Name: "second", Tag: [8]byte{2}, Addresses: []uint64{0x3000}},
	}
}

// feature is a feature as it is in a file.
type feature struct {
	id      perfdata.FeatureID
	section []byte
}

// record writes a recording with one sample in each function of someInfos, with features: a pipe can have several of a kind.
func record(t *testing.T, pipe bool, features ...feature) *perfdata.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perf.data")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	o := perfdata.Options{Events: []*perfdata.Event{{Name: "cpu-clock", Attr: perfdata.Attr{Type: 1, Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}}}
	var w *perfdata.Writer
	if pipe {
		w, err = perfdata.NewPipeWriter(file, o)
	} else {
		w, err = perfdata.NewWriter(file, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range features {
		if err := w.SetFeature(f.id, perfdata.Opaque(f.section)); err != nil {
			t.Fatal(err)
		}
	}
	for time, addr := range []uint64{0x1000, 0x2000, 0x3000} {
		id := perfdata.SampleID{Time: uint64(time + 1)}
		w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: addr, Size: 16, Type: perfdata.KSymbolBPF,
			Name: "bpf_prog_0123456789abcdef_name"})
		id.Time += 100
		w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id, IP: addr})
	}
	if err := w.Close(); err != nil { // reports the errors of all writes
		t.Fatal(err)
	}
	reader, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return reader
}

// TestPrograms identifies programs by the address of their functions, as far as the recording's features can be read.
func TestPrograms(t *testing.T) {
	little := binary.LittleEndian
	both := linear.AppendPrograms(nil, little, someInfos())
	one := func(i int) []byte { return linear.AppendPrograms(nil, little, someInfos()[i:i+1]) }
	for _, test := range []struct {
		name     string
		pipe     bool
		sections [][]byte
		want     []string // names of programs with a sample
		err      string
	}{
		{"file", false, [][]byte{both}, []string{"first", "second"}, ""},
		{"no feature", false, nil, nil, ""},
		{"pipe", true, [][]byte{both}, []string{"first", "second"}, ""},
		{"pipe with a record for each", true, [][]byte{one(0), one(1)}, []string{"first", "second"}, ""},
		{"cut", false, [][]byte{both[:len(both)-1]}, []string{"first"}, "program 2 of 2"},
		{"nothing in it", false, [][]byte{{}}, nil, "too few for a count"},
		{"noise", false, [][]byte{bytes.Repeat([]byte{0xa5}, 300)}, nil, "program 1 of 2779096485"},
		{"noise in a pipe", true, [][]byte{one(1), bytes.Repeat([]byte{0xa5}, 304)}, []string{"second"}, "program 1 of 2779096485"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var features []feature
			for _, section := range test.sections {
				features = append(features, feature{perfdata.FeatureBPFProgInfo, section})
			}
			r := New(record(t, test.pipe, features...), Options{SymFS: t.TempDir()})
			p, err := r.Profile(profile.Comm)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, program := range p.Programs.All() {
				if program.ID != 0 {
					got = append(got, p.Strings.At(program.Name))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || p.Events[0].Samples != 3 {
				t.Errorf("%d samples of 3; programs -want +got:\n%s", p.Events[0].Samples, diff)
			}
			err = r.Stats().BadPrograms
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, not %q", err, test.err)
			}
		})
	}
}

// TestProgramsDescribedLater maps the functions of two programs before a pipe describes one of them, and later the other one.
func TestProgramsDescribedLater(t *testing.T) {
	m := newMachine(&symbols{})
	m.programs.order = binary.LittleEndian
	var dsos []*DSO
	for _, addr := range []uint64{0x1000, 0x2000, 0x3000} {
		m.apply(&perfdata.Record{Value: &perfdata.KSymbol{Addr: addr, Size: 16, Type: perfdata.KSymbolBPF, Name: "bpf_prog_0123456789abcdef_name"}})
		dsos = append(dsos, m.kernel.find(addr).DSO)
	}
	for i, want := range [][]uint32{{0, 0, 8}, {7, 7, 8}} {
		info := someInfos()[1-i]
		feature := &perfdata.HeaderFeature{ID: perfdata.FeatureBPFProgInfo, Data: linear.AppendPrograms(nil, binary.LittleEndian, []*linear.Info{info})}
		m.apply(&perfdata.Record{Value: feature})
		got := []uint32{dsos[0].Program, dsos[1].Program, dsos[2].Program}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with the description of %s, -want +got:\n%s", info.Name, diff)
		}
	}
}

// TestProgramsOfBigEndian reads the beginning of a pipe from a big-endian machine.
func TestProgramsOfBigEndian(t *testing.T) {
	big := binary.BigEndian
	section := linear.AppendPrograms(nil, big, someInfos())
	const featureRecord = 80
	b := big.AppendUint64([]byte("2ELIFREP"), 16)
	b = big.AppendUint16(big.AppendUint16(big.AppendUint32(b, featureRecord), 0), uint16(16+len(section)))
	b = append(big.AppendUint64(b, uint64(perfdata.FeatureBPFProgInfo)), section...)
	reader, err := perfdata.NewPipeReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r := New(reader, Options{})
	want := map[uint64]uint32{0x1000: 7, 0x2000: 7, 0x3000: 8}
	if diff := cmp.Diff(want, r.machine.programs.at); diff != "" || r.Stats().BadPrograms != nil {
		t.Errorf("%v; -want +got:\n%s", r.Stats().BadPrograms, diff)
	}
}

// TestProgramsWithTypes reads a program with the BTF that has its full name, as perf recorded it.
func TestProgramsWithTypes(t *testing.T) {
	recorded := func(file string) []byte {
		b, err := os.ReadFile("../bpfprog/linear/testdata/perf-6.1-x86_64." + file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	info, types := feature{perfdata.FeatureBPFProgInfo, recorded("prog_info")}, feature{perfdata.FeatureBPFBTF, recorded("btf")}
	other := feature{perfdata.FeatureBPFBTF, linear.AppendBTF(nil, binary.LittleEndian, []linear.BTF{{ID: 1, Data: []byte("no BTF")}})}
	for _, test := range []struct {
		name     string
		pipe     bool
		features []feature
		want     string
		err      string
	}{
		{"file", false, []feature{info, types}, "a_name_longer_than_15_bytes", ""},
		{"pipe", true, []feature{types, info, other}, "a_name_longer_than_15_bytes", ""},
		{"no BTF", false, []feature{info}, "a_name_longer_t", ""},
		{"cut", false, []feature{info, {types.id, types.section[:len(types.section)-1]}}, "a_name_longer_t", "feature BPF_BTF: BTF 1 of 1, at byte 4"},
	} {
		r := New(record(t, test.pipe, test.features...), Options{})
		if _, err := r.Profile(profile.Comm); err != nil {
			t.Fatal(err)
		}
		all := r.Programs()
		if len(all) != 1 || all[0].Name != test.want || len(all[0].Functions) != 2 {
			t.Errorf("%s: %+v, want %s", test.name, all, test.want)
		}
		err := r.Stats().BadPrograms
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, not %q", test.name, err, test.err)
		}
	}
}

// TestDamagedFeatures reads recordings with an unreadable feature: the samples are there, and the statistics report the reason for what may
// be missing.
func TestDamagedFeatures(t *testing.T) {
	noise := bytes.Repeat([]byte{0xa5}, 300)
	ids := make([]byte, 36+64)
	ids[6] = byte(len(ids))       // the size of the entry
	copy(ids[12:], "0123456789a") // the ID
	copy(ids[36:], "/usr/bin/one")
	ids = append(ids, 0, 0, 0, 0, 0, 0, 7, 0) // and one that is shorter than an ID
	for _, test := range []struct {
		name    string
		pipe    bool
		id      perfdata.FeatureID
		section []byte
		want    string
	}{
		{"build IDs", false, perfdata.FeatureBuildID, ids, "feature BUILD_ID: an entry of 7 bytes"},
		{"names of events", true, perfdata.FeatureEventDesc, noise[:296], "feature EVENT_DESC: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := New(record(t, test.pipe, feature{test.id, test.section}), Options{SymFS: t.TempDir()})
			p, err := r.Profile(profile.Comm)
			if err != nil {
				t.Fatal(err)
			}
			damaged := r.Stats().Damaged
			if p.Events[0].Samples != 3 || len(damaged) != 1 || !strings.HasPrefix(damaged[0].Error(), test.want) {
				t.Errorf("%d samples of 3; %v, want %s", p.Events[0].Samples, damaged, test.want)
			}
			if test.id == perfdata.FeatureBuildID && string(r.machine.buildIDs["/usr/bin/one"][:11]) != "0123456789a" {
				t.Errorf("what stands in front is missing: %v", r.machine.buildIDs)
			}
		})
	}
}
