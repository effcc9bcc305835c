package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// Addresses in the recordings of hardwareRecording.
const (
	inStartup = 0xffffffff81000010
	inHelper  = inStartup + 0x200
	inJiffies = inStartup + 0x800000
	inProgram = 0x10010
)

// hardwareSymbols is a copy of /proc/kallsyms.
const hardwareSymbols = `ffffffff81000000 T _text
ffffffff81000000 T startup
ffffffff81000100 T work
ffffffff81000200 T helper
ffffffff81000300 T last
ffffffff81800000 D jiffies
ffffffff81800100 D other
ffffffff82000000 T _etext
`

// hardwareRecording writes samples that test machines cannot take: with fields besides the usual ones. Their machine has two sockets.
func hardwareRecording(t *testing.T, fields perfdata.SampleType, samples ...perfdata.Sample) string {
	t.Helper()
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll | perfdata.AttrMmap | perfdata.AttrComm,
		SampleType: fields | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SamplePeriod}}
	if fields.Has(perfdata.SampleBranchStack) {
		event.Attr.BranchSampleType = perfdata.BranchAny
	}
	features := map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureArch: perfdata.Text("x86_64"),
		perfdata.FeatureNRCPUs: perfdata.NRCPUs{Available: 4, Online: 4},
		perfdata.FeatureCPUTopology: perfdata.CPUTopology{Packages: []string{"0-1", "2-3"}, Cores: []string{"0", "1", "2", "3"},
			CPUs: []perfdata.CPUPlace{{Core: 0, Socket: 0}, {Core: 1, Socket: 0}, {Core: 0, Socket: 1}, {Core: 1, Socket: 1}}}}
	if fields.Has(perfdata.SampleBranchStack) {
		features[perfdata.FeatureBranchStack] = perfdata.Flag{}
	}
	return perffile.Write(t, []*perfdata.Event{event}, features, func(w *perfdata.Writer) {
		id := perfdata.SampleID{PID: 10, TID: 10, Time: 1}
		w.Write(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: inStartup &^ 0xff, Length: 0x1000000, Offset: inStartup &^ 0xff,
			Filename: "[kernel.kallsyms]_text"})
		w.Write(perfdata.MiscUser, &perfdata.Comm{PID: 10, TID: 10, Comm: "load12", SampleID: id})
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: 10, TID: 10, Start: 0x10000, Length: 0x10000, Protection: 5,
			Filename: "/none/program", SampleID: id})
		links := make([]perfdata.NamespaceLink, 7)
		links[6] = perfdata.NamespaceLink{Device: 4, Inode: 0xeffffffb}
		for i, s := range samples {
			if i == 1 { // the first sample's namespaces are unknown
				w.Write(perfdata.MiscUser, &perfdata.Namespaces{PID: 10, TID: 10, Links: links, SampleID: id})
			}
			id.Time++
			id.CPU = s.CPU
			s.SampleID = id
			mode := perfdata.MiscUser
			if s.IP>>63 != 0 {
				mode = perfdata.MiscKernel
			}
			w.Write(mode, &s)
		}
	})
}

// branchRecording writes samples with branch stacks, one of which is empty.
func branchRecording(t *testing.T) string {
	const predicted, mispredicted, inTX, abort = 2, 1, 4, 8
	branch := func(from, to uint64, cycles int, flags perfdata.BranchFlags) perfdata.Branch {
		return perfdata.Branch{From: from, To: to, Flags: flags | perfdata.BranchFlags(cycles)<<4}
	}
	hot := branch(inStartup+2, inHelper, 7, predicted)
	return hardwareRecording(t, perfdata.SampleBranchStack,
		perfdata.Sample{IP: inStartup, Period: 1000, Branches: []perfdata.Branch{hot, branch(inHelper+0x20, inStartup, 0, mispredicted|inTX),
			branch(0x10020, inHelper-0x10, 3, predicted|abort)}},
		perfdata.Sample{IP: inProgram, Period: 3000, Branches: []perfdata.Branch{hot, branch(0x10020, 0x10080, 0, predicted)}},
		perfdata.Sample{IP: inProgram, Period: 3000, Branches: []perfdata.Branch{hot, branch(0x10020, 0x500000, 12, predicted),
			branch(inStartup+2, inHelper+5, 7, predicted)}},
		perfdata.Sample{IP: inProgram, Period: 3000})
}

// accessFields are the fields of samples of accesses to memory.
const accessFields = perfdata.SampleAddr | perfdata.SampleDataSrc | perfdata.SampleWeightStruct | perfdata.SamplePhysAddr |
	perfdata.SampleCodePageSize | perfdata.SampleDataPageSize | perfdata.SampleTransaction

// memoryRecording writes samples of accesses to memory, one without data.
func memoryRecording(t *testing.T) string {
	source := func(op, level, snoop, lock, tlb, number uint64) perfdata.DataSource {
		return perfdata.DataSource(op | level<<5 | snoop<<19 | lock<<24 | tlb<<26 | number<<33)
	}
	weights := func(weight, instruction, retire uint64) perfdata.Weight {
		return perfdata.Weight(weight | instruction<<32 | retire<<48)
	}
	cached := perfdata.Sample{IP: inStartup, Period: 1000, Addr: inJiffies, DataSource: source(2, 2|8, 2, 2, 2|8, 0),
		Weight: weights(30, 4, 2), PhysAddr: 0x1234567, CodePageSize: 2 << 20, DataPageSize: 4096, Transaction: 1 | 4}
	near := cached
	near.Addr, near.PhysAddr = near.Addr+8, near.PhysAddr+8
	near.CPU = 2
	return hardwareRecording(t, accessFields, cached, cached, near,
		perfdata.Sample{IP: inHelper, Period: 500, Addr: 0x7fff1000, DataSource: source(4, 4|8, 4, 1, 4|16, 0),
			Weight: weights(7, 1, 0), PhysAddr: 0x777000, CodePageSize: 4096, DataPageSize: 4096, Transaction: 2 | 8 | 16 | 5<<32},
		perfdata.Sample{IP: inProgram, Period: 700, Addr: 0x7fff0000, DataSource: source(2, 0, 16, 1, 0, 13) | 2<<40,
			Weight: weights(300, 0, 9), CodePageSize: 1 << 30},
		perfdata.Sample{IP: inProgram, Period: 700, DataSource: perfdata.DataSourceNA, CodePageSize: 1 << 14})
}

// hardwareReport is a report of a hardware recording.
type hardwareReport struct {
	name   string
	record func(*testing.T) string
	args   []string
}

// hardwareReports have golden files. perf prints the same.
var hardwareReports = []hardwareReport{
	{"branches", branchRecording, nil},
	{"branches", branchRecording, []string{"-b", "-n", "--show-total-period"}},
	{"branches", branchRecording, []string{"-s", "+mispredict,in_tx,abort"}},
	{"branches", branchRecording, []string{"-s", "dso,cycles"}},
	{"branches", branchRecording, []string{"-s", "pid,cycles"}},
	{"branches", branchRecording, []string{"-F", "overhead,sample,symbol_from"}},
	{"branches", branchRecording, []string{"-F", "overhead,symbol_to,dso_to"}},
	{"branches", branchRecording, []string{"--percent-limit", "20", "--children"}},
	{"branches", branchRecording, []string{"--total-cycles"}},
	{"branches", branchRecording, []string{"--total-cycles", "-s", "dso", "-n"}},
	{"branches", branchRecording, []string{"--no-branch-stack", "--total-cycles"}},
	{"branches", branchRecording, []string{"--no-branch-stack"}},
	{"branches", branchRecording, []string{"--no-branch-stack", "--percent-limit", "50", "-s", "dso_size"}},
	{"accesses", memoryRecording, nil},
	{"accesses", memoryRecording, []string{"--mem-mode"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-s", "snoop,locked,blocked"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-s", "tlb,mem"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-s", "phys_daddr,data_page_size"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-s", "+cpu"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-s", "dcacheline"}},
	{"accesses", memoryRecording, []string{"--mem-mode", "-F", "overhead,symbol_iaddr"}},
	{"accesses", memoryRecording, []string{"-n", "-s", "weight,local_weight"}},
	{"accesses", memoryRecording, []string{"-s", "ins_lat,local_ins_lat"}},
	{"accesses", memoryRecording, []string{"-s", "p_stage_cyc,local_p_stage_cyc"}},
	{"accesses", memoryRecording, []string{"-s", "transaction"}},
	{"accesses", memoryRecording, []string{"-s", "addr,sym"}},
	{"accesses", memoryRecording, []string{"-s", "code_page_size"}},
	{"accesses", memoryRecording, []string{"-s", "comm_nodigit"}},
	{"accesses", memoryRecording, []string{"-s", "cgroup_id"}},
	{"accesses", memoryRecording, []string{"-F", "overhead,weight1,weight2,weight3"}},
	{"accesses", memoryRecording, []string{"-F", "overhead,ins_lat,retire_lat,sym,sample"}},
	{"accesses", memoryRecording, []string{"-F", "weight1,sym"}},
	{"accesses", memoryRecording, []string{"-s", "socket,cpu"}},
	{"accesses", memoryRecording, []string{"-F", "overhead,local_weight,socket"}},
}

// randomReports are reports of many samples, whose rows have equal values: perf orders them by their keys.
var randomReports = []hardwareReport{
	{"branches", randomBranches, nil},
	{"branches", randomBranches, []string{"--total-cycles"}},
	{"branches", randomBranches, []string{"-s", "dso_from,dso_to"}},
	{"branches", randomBranches, []string{"-F", "overhead,symbol_to,symbol_from"}},
	{"branches", randomBranches, []string{"-s", "cycles,cpu"}},
	{"branches", randomBranches, []string{"-s", "srcline_from,srcline_to"}},
	{"accesses", randomAccesses, []string{"--mem-mode"}},
	{"accesses", randomAccesses, []string{"--mem-mode", "-F", "overhead,symbol_daddr"}},
	{"accesses", randomAccesses, []string{"--mem-mode", "-s", "phys_daddr"}},
	{"accesses", randomAccesses, []string{"--mem-mode", "-s", "dcacheline,mem"}},
	{"accesses", randomAccesses, []string{"--mem-mode", "-F", "overhead,symbol_iaddr"}},
	{"accesses", randomAccesses, []string{"--mem-mode", "-s", "data_page_size,mem"}},
	{"accesses", randomAccesses, []string{"-s", "weight,local_ins_lat"}},
	{"accesses", randomAccesses, []string{"-s", "addr,code_page_size"}},
	{"accesses", randomAccesses, []string{"-s", "socket,cpu"}},
	{"accesses", randomAccesses, []string{"-F", "weight1,overhead,sym"}},
}

// randomBranches writes samples with random branches in two files.
func randomBranches(t *testing.T) string {
	random := rand.New(rand.NewPCG(3, 4))
	somewhere := func() uint64 { return []uint64{0x10000, inStartup, inHelper}[random.IntN(3)] + random.Uint64N(20)*16 }
	samples := make([]perfdata.Sample, 200)
	for i := range samples {
		s := &samples[i]
		s.IP, s.Period, s.CPU = somewhere(), 1000, uint32(random.IntN(4))
		for range random.IntN(8) {
			flags := perfdata.BranchFlags(2 | random.Uint64N(4)<<4)
			s.Branches = append(s.Branches, perfdata.Branch{From: somewhere(), To: somewhere(), Flags: flags})
		}
	}
	return hardwareRecording(t, perfdata.SampleBranchStack, samples...)
}

// randomAccesses writes samples of random accesses by the kernel to its data.
func randomAccesses(t *testing.T) string {
	random := rand.New(rand.NewPCG(5, 6))
	bit := func(from, n int) perfdata.DataSource { return 1 << (from + random.IntN(n)) }
	samples := make([]perfdata.Sample, 200)
	for i := range samples {
		samples[i] = perfdata.Sample{IP: inStartup + random.Uint64N(48)*16, Period: 1000, Addr: inJiffies + random.Uint64N(64)*8,
			DataSource: bit(1, 2) | bit(6, 2) | bit(8, 4) | bit(19, 5) | bit(24, 2) | bit(27, 2) | bit(29, 2) | bit(40, 3),
			Weight:     perfdata.Weight(random.Uint64N(5) | random.Uint64N(3)<<32 | random.Uint64N(3)<<48),
			PhysAddr:   random.Uint64N(10) << 12, CodePageSize: 4096 << random.IntN(3), DataPageSize: 4096 << random.IntN(3)}
		samples[i].CPU = uint32(random.IntN(4))
	}
	return hardwareRecording(t, accessFields, samples...)
}

// kernelSymbols writes a file like /proc/kallsyms.
func kernelSymbols(t *testing.T, symbols string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(path, []byte(symbols), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReportModes prints branches, accesses to memory, and the keys of both.
func TestReportModes(t *testing.T) {
	require.NoKernel(t)
	symbols := kernelSymbols(t, hardwareSymbols)
	got := map[string]string{}
	for _, tt := range hardwareReports {
		report := runHere(t, slices.Concat([]string{"report", "--kallsyms", symbols, "-i", tt.record(t)}, tt.args)...)
		if report.status != 0 {
			t.Errorf("%s %q: %+v", tt.name, tt.args, report)
		}
		got[tt.name] += fmt.Sprintf("$ report %s\n%s\n", strings.Join(tt.args, " "), rowsAndHeads(report.stdout))
	}
	for name, text := range got {
		golden.Compare(t, filepath.Join("testdata", "report-"+name+".golden"), text)
	}
}

// TestReportModesBesidePerf compares the same reports with those of perf.
func TestReportModesBesidePerf(t *testing.T) {
	perf, symbols := require.NewestPerf(t), kernelSymbols(t, hardwareSymbols)
	for _, tt := range slices.Concat(hardwareReports, randomReports) {
		args := slices.Concat([]string{"report", "--stdio", "--kallsyms", symbols, "-i", tt.record(t)}, tt.args)
		ours, theirs := run(t, bperf(args...)), run(t, exec.Command(perf, args...))
		want := strings.ReplaceAll(rowsAndHeads(theirs.stdout), "[H]", "[.]") // perf shows the kind of code of an unknown address as the hypervisor's
		if diff := cmp.Diff(want, rowsAndHeads(ours.stdout)); diff != "" || !strings.Contains(want, "# Samples: ") {
			t.Errorf("%s %q (-perf +bperf):\n%s", tt.name, tt.args, diff)
		}
	}
}

// TestReportModesElsewhere checks what other outputs do with a recording of branches.
func TestReportModesElsewhere(t *testing.T) {
	require.NoKernel(t)
	input, symbols := branchRecording(t), kernelSymbols(t, hardwareSymbols)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "-i", input, "--format", "folded"}, "load12;[program] 9000\n"}, // samples: branches have no stacks
		{[]string{"report", "-i", input, "--stats"}, "SAMPLE events:          4\n"},
		{[]string{"report", "-i", input, "--format", "csv", "-s", "symbol_from"}, "50.00,[k] startup\n"},
		{[]string{"report", "-i", input, "--diff", input, "-s", "cycles"}, "    50.00%     +0.00%  7\n"},
		{[]string{"report", "-i", input, "--total-cycles", "-q", "-t", ";"}, "65.12%;28;100.00%;7;[startup+16 -> startup+18];[kernel.kallsyms]\n"},
		{[]string{"report", "-i", input, "-U", "-n", "-F", "sample,symbol_to"}, "4  [k] helper\n"},
		{[]string{"report", "-i", input, "--symbol-filter", "start", "-F", "sample,symbol_to"}, "1  [k] startup\n"},
		{[]string{"diff", "-s", "weight", memoryRecording(t), memoryRecording(t)}, "    61.22%     +0.00%  30\n"},
	} {
		got := runHere(t, slices.Concat(tt.args, []string{"--kallsyms", symbols})...)
		if got.status != 0 || !strings.Contains(got.stdout, tt.want) {
			t.Errorf("%q: %+v\nwant %q", tt.args, got, tt.want)
		}
	}
}

var aroundTable = regexp.MustCompile(`(?m)^(#?|# (To display|Total Lost|\(Tip).*)\n`)

// rowsAndHeads returns a report without what stands above and below its table.
func rowsAndHeads(text string) string {
	return aroundTable.ReplaceAllString(text, "")
}
