package report

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// TestHeaderPrograms has programs with and without names, sub-programs and BTF.
func TestHeaderPrograms(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	function := func(name string) btf.Type {
		return &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Void{}}, Linkage: btf.StaticFunc}
	}
	builder, err := btf.NewBuilder(nil, nil)
	check(err)
	first, err := builder.Add(function("main_of_a_long_name"))
	check(err)
	second, err := builder.Add(function("below"))
	check(err)
	types, err := builder.Marshal(nil, nil)
	check(err)
	tag := [8]byte{0xab, 1}
	infos := []*linear.Info{
		{ID: 1, Tag: tag, JITedSize: 64, Addresses: []uint64{0xffffffffc0000000}, Sizes: []uint32{64}},
		{ID: 2, Tag: tag, Name: "main_of_a_long_", BTF: 7, JITedSize: 96, Addresses: []uint64{0xffffffffc0001000, 0xffffffffc0002000}, Sizes: []uint32{64, 32},
			Tags: [][8]byte{tag, {0xcd}}, Functions: []linear.FunctionInfo{{Type: uint32(first)}, {Type: uint32(second)}}},
		{ID: 3, Tag: tag, Name: "evil\x1b[2J", JITedSize: 8, Addresses: []uint64{0xffffffffc0003000}, Sizes: []uint32{8}},
	}
	var file bytes.Buffer
	w, err := perfdata.NewPipeWriter(&file, perfdata.Options{Events: []*perfdata.Event{{Name: "cycles", IDs: []uint64{1}}}, StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{
		perfdata.FeatureBPFProgInfo: perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, infos)),
		perfdata.FeatureBPFBTF:      perfdata.Opaque(linear.AppendBTF(nil, binary.LittleEndian, []linear.BTF{{ID: 7, Data: types}})),
	}})
	check(err)
	check(w.Close())
	r, err := perfdata.NewPipeReader(&file)
	check(err)
	var out strings.Builder
	check(Header(&out, r, HeaderOptions{}))
	for _, want := range []string{
		"# bpf_prog_info 1: bpf_prog_ab01000000000000 addr 0xffffffffc0000000 size 64\n",
		"# bpf_prog_info 2:\n# \tsub_prog 0: bpf_prog_ab01000000000000_main_of_a_long_name addr 0xffffffffc0001000 size 64\n" +
			"# \tsub_prog 1: bpf_prog_cd00000000000000_below addr 0xffffffffc0002000 size 32\n",
		"# bpf_prog_info 3: bpf_prog_ab01000000000000_evil",
		"# btf info of id 7\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("printed as it is:\n%s", &out)
	}
}

// headerEvents are events with and without a frequency, a group of two, and a name that would change a terminal.
func headerEvents() []*perfdata.Event {
	types := perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleIdentifier
	return []*perfdata.Event{
		{Name: "cycles", IDs: []uint64{1, 2}, Attr: perfdata.Attr{SamplePeriod: 4000, SampleType: types, Flags: perfdata.AttrFreq}},
		{Name: "cpu/inst\x1b/", IDs: []uint64{3}, Attr: perfdata.Attr{Type: 9999, Config: 0xc0, SamplePeriod: 9, SampleType: types}},
		{Name: "LLC-load-misses", Attr: perfdata.Attr{Type: perfdata.TypeHWCache, Config: 0x10002, SampleType: types}},
	}
}

// headerFeatures has a value for each feature.
func headerFeatures() map[perfdata.FeatureID]perfdata.FeatureValue {
	return map[perfdata.FeatureID]perfdata.FeatureValue{
		perfdata.FeatureHostname: perfdata.Text("host"), perfdata.FeatureOSRelease: perfdata.Text("6.1.0"), perfdata.FeatureVersion: perfdata.Text("6.1.1"),
		perfdata.FeatureArch: perfdata.Text("x86_64"), perfdata.FeatureNRCPUs: perfdata.NRCPUs{Available: 2, Online: 2},
		perfdata.FeatureCPUDesc: perfdata.Text("a CPU"), perfdata.FeatureCPUID: perfdata.Text("GenuineIntel,6,69,1"), perfdata.FeatureTotalMem: perfdata.TotalMem(1234),
		perfdata.FeatureCmdline: perfdata.CommandLine{"perf", "record", "sh", "-c", "echo 'it is'"},
		perfdata.FeatureCPUTopology: perfdata.CPUTopology{Packages: []string{"0-1"}, Cores: []string{"0", "1"}, Dies: []string{"0-1"},
			CPUs: []perfdata.CPUPlace{{}, {Core: 1}}},
		perfdata.FeatureNUMATopology: perfdata.NUMATopology{{Node: 0, MemTotal: 2048, MemFree: 1024, CPUs: "0-1"}},
		perfdata.FeatureBranchStack:  perfdata.Flag{},
		perfdata.FeaturePMUMappings:  perfdata.PMUMappings{{Type: 9999, Name: "cpu"}, {Type: 1, Name: "software"}},
		perfdata.FeatureGroupDesc:    perfdata.GroupDescriptions{{Name: "named", Leader: 0, Members: 2}},
		perfdata.FeatureAuxtrace:     perfdata.AuxtraceIndex{{Offset: 100, Size: 0}},
		perfdata.FeatureStat:         perfdata.Flag{},
		perfdata.FeatureCache:        perfdata.Caches{{Level: 1, Type: "Instruction", Size: "32K", CPUs: "0"}, {Level: 3, Type: "Unified", Size: "36608K", CPUs: "0-1"}},
		perfdata.FeatureSampleTime:   perfdata.SampleTimes{First: 1234567890, Last: 2234567999},
		perfdata.FeatureMemTopology:  perfdata.MemTopology{BlockSize: 128 << 20, Nodes: []perfdata.MemNode{{Size: 68, Blocks: []uint64{0xffffffff00fffffe, 9}}}},
		perfdata.FeatureClockID:      perfdata.ClockResolution(1),
		perfdata.FeatureBPFProgInfo: perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, []*linear.Info{{ID: 2, Tag: [8]byte{0xab}, JITedSize: 96,
			Addresses: []uint64{0xffffffffc0001000, 0xffffffffc0002000}, Sizes: []uint32{64, 32}, Tags: [][8]byte{{0xab}, {0xcd}}}})),
		perfdata.FeatureBPFBTF:         perfdata.Opaque(linear.AppendBTF(nil, binary.LittleEndian, nil)),
		perfdata.FeatureCompressed:     perfdata.Compression{Version: 1, Type: 1, Level: 3, Ratio: 5, MmapLen: 528384},
		perfdata.FeatureCPUPMUCaps:     perfdata.CPUPMUCaps{{Name: "branches", Value: "32"}, {Name: "max_precise", Value: "3"}},
		perfdata.FeatureClockData:      perfdata.ClockData{ClockID: 1, WallClock: 1700000000123456789, Clock: 1234000000123},
		perfdata.FeatureHybridTopology: perfdata.HybridTopology{{PMU: "cpu_core", CPUs: "0"}, {PMU: "cpu_atom", CPUs: "1"}},
		perfdata.FeaturePMUCaps: perfdata.PMUCaps{{PMU: "cpu_core", Caps: []perfdata.PMUCap{{Name: "branches", Value: "32"}}},
			{PMU: "ibs_op", Caps: []perfdata.PMUCap{{Name: "zen4", Value: "1"}, {Name: "a", Value: "b"}}}},
		perfdata.FeatureEMachine: perfdata.EMachine{Machine: 62, Flags: 3}, perfdata.FeatureCLNSize: perfdata.CacheLineSize(64),
	}
}

// writeHeaderFile writes a recording without records, and sets the time of its last change.
func writeHeaderFile(t *testing.T, features map[perfdata.FeatureID]perfdata.FeatureValue) (path string) {
	t.Helper()
	path = perffile.Write(t, headerEvents(), features, func(*perfdata.Writer) {})
	at := time.Date(2023, 11, 4, 22, 13, 20, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

// printHeader returns the header of a file.
func printHeader(t *testing.T, path string, topology bool) string {
	t.Helper()
	r, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at, _ := r.Modified()
	var out strings.Builder
	if err := Header(&out, r, HeaderOptions{Topology: topology, Captured: at}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// emptyFeatures are features whose lists are empty, and clocks and compression that have no name.
func emptyFeatures() map[perfdata.FeatureID]perfdata.FeatureValue {
	features := headerFeatures()
	features[perfdata.FeaturePMUMappings] = perfdata.PMUMappings{}
	features[perfdata.FeatureGroupDesc] = perfdata.GroupDescriptions{{Name: "{anon_group}", Leader: 1, Members: 2}}
	features[perfdata.FeatureBPFProgInfo] = perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, nil))
	features[perfdata.FeatureCompressed] = perfdata.Compression{Version: 1, Type: 2, MmapLen: 4096}
	features[perfdata.FeatureCPUPMUCaps] = perfdata.CPUPMUCaps{}
	features[perfdata.FeatureClockData] = perfdata.ClockData{ClockID: 99, WallClock: 5000000700, Clock: 1000000005}
	features[perfdata.FeatureHybridTopology] = perfdata.HybridTopology{}
	features[perfdata.FeaturePMUCaps] = perfdata.PMUCaps{{PMU: "cpu_core"}}
	for _, id := range []perfdata.FeatureID{perfdata.FeatureHostname, perfdata.FeatureCache, perfdata.FeatureStat} {
		delete(features, id)
	}
	return features
}

// TestHeader prints a recording with each feature.
func TestHeader(t *testing.T) {
	out := printHeader(t, writeHeaderFile(t, headerFeatures()), true)
	_, out, _ = strings.Cut(out, "\n# captured on    : ") // in the time zone of the machine
	_, out, _ = strings.Cut(out, "\n")
	wall := time.Unix(1700000000, 123456789).Format("2006-01-02 15:04:05.000000")
	golden.Compare(t, filepath.Join("testdata", "header.golden"), strings.ReplaceAll(out, wall, "(local time)"))
}

// TestHeaderLikePerf compares headers with those of perf.
func TestHeaderLikePerf(t *testing.T) {
	perfs := map[string]string{"packaged": require.Perf(t), "newest": require.NewestPerf(t)}
	for name, features := range map[string]map[perfdata.FeatureID]perfdata.FeatureValue{"all": headerFeatures(), "empty": emptyFeatures(), "few": nil} {
		path := writeHeaderFile(t, features)
		for which, perf := range perfs {
			for _, topology := range []bool{false, true} {
				args := []string{"report", "--header-only", "-i", path}
				if topology {
					args = append(args, "-I")
				}
				cmd := exec.CommandContext(t.Context(), perf, args...)
				cmd.Dir = t.TempDir()
				theirs, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s %s: %v", perf, strings.Join(args, " "), err)
				}
				// perf names the PMUs of the machine that reads, and F the function of a program whose name it does not have.
				want, got := strings.NewReplacer("\x1b", "?", "00_F addr 0xffffffffc0001000", "00 addr 0xffffffffc0001000").Replace(string(theirs)), strings.ReplaceAll(printHeader(t, path, topology), " (cpu)", "")
				if which == "packaged" {
					got = asOldHeader(got)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s perf, topology %t (-perf +bperf):\n%s", name, which, topology, diff)
				}
			}
		}
	}
}

// named are the names of numbers, which perf prints since 6.6.
var named = regexp.MustCompile(`((?:type|config) = \w+) \([^)]*\)`)

// asOldHeader returns a header as perf 6.1 prints it: without later features, without fields of attributes that are 0, and without lines that
// say that there is nothing.
func asOldHeader(text string) string {
	text = named.ReplaceAllString(text, "$1")
	text = strings.NewReplacer(" type = 0,", "", " config = 0,", "", "CPU_DOMAIN_INFO ", "", "E_MACHINE ", "", "CLN_SIZE ", "").Replace(text)
	return regexp.MustCompile(`(?m)^# (e_machine|  e_flags|cacheline size|bpf_prog_info empty|btf info empty).*\n`).ReplaceAllString(text, "")
}

// TestHeaderOfPipe prints the features after the block, as perf does.
func TestHeaderOfPipe(t *testing.T) {
	var file bytes.Buffer
	w, err := perfdata.NewPipeWriter(&file, perfdata.Options{Events: headerEvents(), StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{
		perfdata.FeatureHostname: perfdata.Text("host\n# arch : forged")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := perfdata.NewPipeReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Header(&out, r, HeaderOptions{}); err != nil {
		t.Fatal(err)
	}
	want := `# ========
# header version : 1
# data offset    : 0
# data size      : 0
# feat offset    : 0
# ========
#
# hostname : host?# arch : forged
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
