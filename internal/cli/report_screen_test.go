package cli

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/clipperhouse/displaywidth"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// walkSymbols is a copy of /proc/kallsyms for writeWalk.
const walkSymbols = `ffffffff81000000 T _text
ffffffff81001000 T entry_SYSCALL_64
ffffffff81002000 T do_syscall_64
ffffffff81003000 T __sys_bpf
ffffffff81004000 T bpf_prog_test_run_skb_with_a_name_that_is_longer_than_most_columns
ffffffff81005000 T schedule
ffffffff82000000 T _etext
`

// walkProgram returns the features of a recording with a BPF program that perf has recorded, and the program.
func walkProgram(t *testing.T) (map[perfdata.FeatureID]perfdata.FeatureValue, *linear.Program) {
	t.Helper()
	section := func(name string) []byte {
		b, err := os.ReadFile("../bpfprog/linear/testdata/perf-6.1-x86_64." + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	info, types := section("prog_info"), section("btf")
	all, err := linear.DecodePrograms(info, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := linear.DecodeBTF(types, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := linear.LoadBTF(recorded[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	program, err := all[0].Program(spec)
	if err != nil {
		t.Fatal(err)
	}
	return map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureArch: perfdata.Text("x86_64"),
		perfdata.FeatureBPFProgInfo: perfdata.Opaque(info), perfdata.FeatureBPFBTF: perfdata.Opaque(types)}, program
}

// writeWalk writes a recording of two events in two threads. One of them runs a BPF program of two functions.
func writeWalk(t *testing.T) string {
	t.Helper()
	attr := perfdata.Attr{SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP |
		perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleCallchain | perfdata.SamplePeriod}
	features, program := walkProgram(t)
	events := []*perfdata.Event{{Name: "cpu-clock", IDs: []uint64{7}, Attr: attr}, {Name: "page-faults", IDs: []uint64{8}, Attr: attr}}
	return perffile.Write(t, events, features, func(w *perfdata.Writer) {
		const user, kernel = 0x400000, 0xffffffff81000000
		outer, inner := program.Functions[0], program.Functions[1]
		id := perfdata.SampleID{PID: 100, TID: 100, ID: 7}
		w.Write(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: kernel, Length: 0x1000000, Offset: kernel, Filename: "[kernel.kallsyms]_text"})
		for tid, name := range map[int32]string{100: "load", 101: "worker"} {
			w.Write(perfdata.MiscUser, &perfdata.Comm{PID: 100, TID: tid, Comm: name, SampleID: id})
		}
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: 100, TID: 100, Start: user, Length: 0x10000, Protection: 5,
			Filename: "/none/directory/load-with-a-long-name-of-its-file.so.1.2.3", SampleID: id})
		for _, f := range program.Functions {
			w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: f.Address, Size: f.Size, Type: perfdata.KSymbolBPF, Name: f.Symbol})
		}
		w.Write(perfdata.MiscKernel, &perfdata.BPFEvent{SampleID: id, Type: 1, ID: uint32(program.ID)})
		sample := func(times int, tid int32, event uint64, chain ...uint64) {
			mode := perfdata.MiscUser
			if chain[0]>>63 != 0 {
				mode, chain = perfdata.MiscKernel, append([]uint64{perfdata.ContextKernel}, chain...)
			} else {
				chain = append([]uint64{perfdata.ContextUser}, chain...)
			}
			for range times {
				id.Time += 1000
				id.ID, id.TID, id.CPU = event, tid, uint32(id.Time/1000%2)
				w.Write(mode, &perfdata.Sample{SampleID: id, IP: chain[1], Period: 1000, Callchain: chain})
			}
		}
		system := []uint64{kernel + 0x4010, kernel + 0x3010, kernel + 0x2010, kernel + 0x1010, perfdata.ContextUser, user + 0x100, user + 0x200}
		hot := inner.Lines[1].Address + 1
		sample(50, 100, 7, append([]uint64{hot, outer.Address + 20}, system...)...)
		sample(20, 100, 7, append([]uint64{outer.Address + 9}, system...)...)
		sample(10, 100, 7, user+0x120, user+0x200)
		sample(15, 101, 7, kernel+0x5020, kernel+0x2010, kernel+0x1010, perfdata.ContextUser, user+0x300)
		sample(5, 101, 7, user+0x310)
		sample(4, 100, 8, user+0x130, user+0x200)
	})
}

// reportScreenOf returns the screen of a report with these arguments.
func reportScreenOf(t *testing.T, width, height int, args ...string) *reportScreen {
	t.Helper()
	f, cmd := &reportFlags{}, &cobra.Command{}
	f.input.addInput(cmd.Flags())
	f.input.add(cmd.Flags(), "C")
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	recording, err := f.input.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()
	o, err := f.options(cmd, hasCallchains(recording), false, recording)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := o.NeededKeys()
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := f.profile(recording, o, keys|browseKeys)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.screen(nil, p, o)
	if err != nil {
		t.Fatal(err)
	}
	s.width, s.height = width, height
	return s
}

// pressReport presses keys, waits for what they start, and draws the screen after each.
func pressReport(t *testing.T, s *reportScreen, keys string) {
	t.Helper()
	for _, k := range typed(keys) {
		if _, cmd := s.Update(k); cmd != nil {
			checkReportScreen(t, s)
			s.Update(cmd())
		}
		checkReportScreen(t, s)
	}
}

// checkReportScreen checks that the screen fits the terminal, and has no control characters but those of its styles.
func checkReportScreen(t *testing.T, s *reportScreen) {
	t.Helper()
	lines := strings.Split(s.text(), "\n")
	if len(lines) > s.height {
		t.Errorf("%d lines on a terminal of %d", len(lines), s.height)
	}
	for _, l := range lines {
		l = strings.NewReplacer(bold, "", reverse, "", plain, "").Replace(l)
		if n := displaywidth.String(l); n > s.width || strings.ContainsFunc(l, unicode.IsControl) {
			t.Errorf("%d wide on a terminal of %d: %q", n, s.width, l)
		}
	}
}

// toTheProgram are the keys from the first screen to the function of a BPF program with the most samples, and to its source line.
const toTheProgram = "/sum_up<enter><enter>"

func TestReportScreen(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	symbols := kernelSymbols(t, walkSymbols)
	for name, tt := range map[string]struct {
		width, height int
		keys, args    string
	}{
		"80x24":           {80, 24, "", ""},
		"200x50":          {200, 50, "", ""},
		"40x10":           {40, 10, "<enter>", ""},
		"20x3":            {20, 3, "<down>", ""},
		"1x1":             {1, 1, "e", ""},
		"opened":          {80, 24, "<enter>", ""},
		"opened-200x50":   {200, 50, "e<down><down><down>", ""},
		"callees":         {80, 24, "e", "--children=false"},
		"fractal":         {80, 24, "e", "--call-graph=fractal,caller,count"},
		"no-calls":        {80, 24, "e", "--call-graph=none"},
		"program":         {80, 24, toTheProgram, ""},
		"annotated":       {80, 24, toTheProgram + "a", ""},
		"annotated-wide":  {200, 50, toTheProgram + "a", ""},
		"annotated-intel": {80, 24, toTheProgram + "a", "-M intel --asm-raw"},
		"unknown":         {80, 24, "/load-with<enter>a", ""},
		"callers-only":    {80, 24, "/do_sys<enter>a", ""},
		"typing":          {80, 24, "/Sch", ""},
		"no-match":        {80, 24, "/nothing", ""},
		"in-calls":        {80, 24, "/entry_s<enter>n", "--children=false"},
		"thread":          {80, 24, "<end>t", "-s tid,sym"},
		"thread-relative": {80, 24, "/worker<enter>t", "--percentage relative"},
		"file":            {80, 24, "/schedule<enter>d<esc>", ""},
		"sorting":         {80, 24, "sdso", ""},
		"sorted":          {80, 24, "sdso,sym<enter>", ""},
		"sorted-cpu":      {80, 24, "scpu<enter>", "--call-graph=none"},
		"bad-key":         {80, 24, "snosuch<enter>", ""},
		"event":           {80, 24, "<tab>", ""},
		"group":           {80, 24, "", "--group"},
		"columns":         {80, 24, "", "-F overhead,sample,period,pid,sym"},
		"keys":            {80, 24, "?", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := reportScreenOf(t, tt.width, tt.height, append(strings.Fields(tt.args), "--kallsyms", symbols, "-i", recording)...)
			checkReportScreen(t, s)
			pressReport(t, s, tt.keys)
			golden.Compare(t, filepath.Join("testdata", "report-screen-"+name+".golden"),
				strings.NewReplacer(bold, "«bold»", reverse, "«reverse»", plain, "«»").Replace(s.text())+"\n")
		})
	}
}

// TestReportScreenHostile walks through rows and call trees whose names all have control characters.
func TestReportScreenHostile(t *testing.T) {
	require.NoKernel(t)
	recording := writeHostile(t)
	for _, width := range []int{20, 80, 300} {
		s := reportScreenOf(t, width, 30, "-i", recording, "-s", "comm,dso,sym,cgroup")
		checkReportScreen(t, s)
		pressReport(t, s, "e<down><down>n/x<enter>nnNt<home>d?<esc>a<esc><esc><esc><esc>s\x1b\a<enter><tab>scomm<enter>td/"+hostile)
		wantClean(t, "the list", s.plainText(), false)
	}
}

// TestReportKeys presses keys, and checks what is then shown.
func TestReportKeys(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	symbols := kernelSymbols(t, walkSymbols)
	for _, tt := range []struct {
		keys, zooms, filter, note, sort string
		number, lines                   int
	}{
		{keys: "", lines: 14},
		{keys: "<enter><enter>", lines: 14},
		{keys: "ec", lines: 14},
		{keys: "<right><left>", lines: 14},
		{keys: "/sche<enter>", filter: "sche", lines: 1},
		{keys: "/sche<esc>", lines: 14},
		{keys: "/sche<enter><esc>", lines: 14},
		{keys: "/sche<backspace><backspace>xx<ctrl+u>SCHE", filter: "sche", lines: 1},
		{keys: "/worker<enter>t", zooms: "threads named worker", filter: "worker", lines: 5},
		{keys: "/worker<enter>tt", zooms: "threads named worker", filter: "worker", lines: 5,
			note: "that is all that is shown: only threads named worker"},
		{keys: "/sche<enter>t<esc>d", zooms: "threads named worker, file [kernel.kallsyms]", lines: 3},
		{keys: "/sche<enter>t<esc>d<esc>", zooms: "threads named worker", lines: 5},
		{keys: "/sche<enter>t<esc>d<esc><esc><esc>", lines: 14},
		{keys: "<tab>", number: 1, lines: 2},
		{keys: "<tab>E", lines: 14},
		{keys: "<shift+tab>", number: 1, lines: 2},
		{keys: "sdso<enter>t", sort: "dso", lines: 4, note: "a row can be of several threads: sort by tid or comm first"},
		{keys: "scomm<enter>d", sort: "comm", lines: 2, note: "a row can be of several files: sort by dso or symbol first"},
		{keys: "scomm<enter>a", sort: "comm", lines: 2, note: "a row can be of several functions: sort by symbol first"},
		{keys: "/worker<enter>t<esc>scomm<enter>", zooms: "threads named worker", sort: "comm", lines: 1},
		{keys: "/sche<enter>d<esc>scomm<enter>", zooms: "file [kernel.kallsyms]", sort: "comm", lines: 1},
		{keys: "scpu<enter>", sort: "cpu", lines: 2},
		{keys: "s+cpu<enter>", sort: "comm,dso,symbol,cpu", lines: 28},
		{keys: "s<enter>", lines: 14},
		{keys: "sdso<esc>", lines: 14},
		{keys: "n", lines: 14, note: "nothing to search for: type / and a part of a name first"},
	} {
		s := reportScreenOf(t, 80, 24, "--kallsyms", symbols, "-i", recording)
		pressReport(t, s, tt.keys)
		var zooms []string
		for _, z := range s.zooms {
			zooms = append(zooms, z.String())
		}
		if tt.sort == "" {
			tt.sort = "comm,dso,symbol"
		}
		got := []any{strings.Join(zooms, ", "), s.filter, s.note, strings.Join(s.options.SortKeys(), ","), s.number, len(s.lines)}
		if diff := cmp.Diff([]any{tt.zooms, tt.filter, tt.note, tt.sort, tt.number, tt.lines}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.keys, diff)
		}
	}
}

// TestReportReadsOnce sorts by keys that the samples have, and by one that they lack.
func TestReportReadsOnce(t *testing.T) {
	s := reportScreenOf(t, 80, 24, "--kallsyms", kernelSymbols(t, walkSymbols), "-i", writeWalk(t))
	read, reads := s.read, 0
	s.read = func(o *report.Options) (*report.Walk, error) { reads++; return read(o) }
	for _, tt := range []struct {
		keys  string
		reads int
	}{
		{"ssym<enter>", 0}, {"stid,dso<enter>", 0}, {"td<esc><esc><tab><tab>", 0}, {"scpu<enter>", 1}, {"scpu,tid<enter>", 1}, {"ssym<enter>", 1},
	} {
		if pressReport(t, s, tt.keys); reads != tt.reads || s.note != "" {
			t.Errorf("after %s: read %d times, want %d; %s", tt.keys, reads, tt.reads, s.note)
		}
	}
	s.read = func(*report.Options) (*report.Walk, error) { return nil, errors.New("the disk is\x1b gone") }
	pressReport(t, s, "scgroup<enter>")
	if !strings.Contains(s.text(), "the disk is? gone") || strings.Join(s.options.SortKeys(), ",") != "sym" {
		t.Errorf("after an error:\n%s", s.text())
	}
}

// TestReportBusy presses keys while the recording is read, and suspends bperf.
func TestReportBusy(t *testing.T) {
	require.NoKernel(t)
	s := reportScreenOf(t, 80, 24, "-i", writeWalk(t))
	_, cmd := s.Update(typed("<tab>")[0])
	pressReport(t, s, "<down><tab>")
	if s.number != 0 || s.cursor != 1 || s.note != "bperf is still making the table" {
		t.Errorf("table %d, line %d, %q", s.number, s.cursor, s.note)
	}
	s.suspended = true
	again, err := s.ended()
	if again == nil || err != nil || s.suspended {
		t.Fatal(again, err)
	}
	s.Update(s.Init()())
	if s.number != 1 || s.job != nil {
		t.Errorf("the table %d is shown", s.number)
	}
	s.Update(typed("<tab>")[0])
	s.Update(cmd()) // that of an earlier screen comes late
	if s.number != 1 || s.job == nil {
		t.Errorf("the table %d is shown", s.number)
	}
}

// TestReportExport writes the list to files. It does not overwrite any.
func TestReportExport(t *testing.T) {
	s := reportScreenOf(t, 20, 10, "--kallsyms", kernelSymbols(t, walkSymbols), "-i", writeWalk(t))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink("elsewhere", "perf.hist.0"); err != nil {
		t.Fatal(err)
	}
	pressReport(t, s, "/sche<enter>e")
	pressReport(t, s, "P")
	got, err := os.ReadFile("perf.hist.1")
	if err != nil || s.note != "wrote perf.hist.1" {
		t.Fatal(err, s.note)
	}
	pressReport(t, s, "P")
	again, err := os.ReadFile("perf.hist.2")
	if err != nil || !slices.Equal(got, again) {
		t.Errorf("%v, %s", err, again)
	}
	golden.Compare(t, filepath.Join(testdata, "report-screen-export.golden"), string(got))
	if _, err := os.Stat("elsewhere"); err == nil {
		t.Error("bperf wrote through a symbolic link")
	}
}
