package script

import (
	"bytes"
	"debug/elf"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// branchSource has functions with all kinds of branches, and one with a block of more than 16 KiB.
const branchSource = `int counter;

int leaf(int n)
{
	counter += n;
	return counter * 3;
}

int loop(int n)
{
	int sum = 0;
	while (n-- > 0)
		if (n & 1)
			sum += leaf(n);
		else
			sum ^= n;
	return sum;
}

void _start(void)
{
	for (;;)
		loop(1000);
}

__asm__(".text\n.globl straight\n.type straight, @function\n"
	"straight:\n.rept 5000\n\tadd $1, %eax\n.endr\n\tret\n.size straight, . - straight\n");
`

// branching is a program on disk, with the addresses of its instructions.
type branching struct {
	path         string
	instructions []uint64
	functions    map[string]*elf.Symbol
	code         *elf.Prog
}

func compileBranching(t *testing.T) *branching {
	t.Helper()
	require.Tools(t, "gcc")
	source := branchSource
	if runtime.GOARCH == "arm64" {
		source = strings.ReplaceAll(source, "add $1, %eax", "add w0, w0, 1")
	}
	dir := t.TempDir()
	p := &branching{path: filepath.Join(dir, "branching"), functions: make(map[string]*elf.Symbol)}
	if err := os.WriteFile(filepath.Join(dir, "branching.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-g", "-O1", "-fno-inline", "-static", "-nostdlib", "-Wl,--build-id", "-o", p.path, filepath.Join(dir, "branching.c")}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	image, err := elf.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	symbols, err := image.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for i := range symbols {
		p.functions[symbols[i].Name] = &symbols[i]
	}
	for _, prog := range image.Progs {
		if prog.Type == elf.PT_LOAD && prog.Flags&elf.PF_X != 0 {
			p.code = prog
		}
	}
	disassemble, err := disasm.For(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	text, err := image.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range disassemble(text, image.Section(".text").Addr) {
		p.instructions = append(p.instructions, in.Address)
	}
	return p
}

// record writes samples in the program to a recording.
func (p *branching) record(t *testing.T, samples []perfdata.Sample) string {
	t.Helper()
	event := &perfdata.Event{Name: "cycles", IDs: []uint64{7}, Attr: perfdata.Attr{SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU |
			perfdata.SamplePeriod | perfdata.SampleBranchStack, BranchSampleType: perfdata.BranchAny | perfdata.BranchTypeSave}}
	return perffile.Write(t, []*perfdata.Event{event}, nil, func(w *perfdata.Writer) {
		machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
		for id, v := range map[perfdata.FeatureID]perfdata.FeatureValue{
			perfdata.FeatureArch: perfdata.Text(machine), perfdata.FeatureBranchStack: perfdata.Flag{}} {
			if err := w.SetFeature(id, v); err != nil {
				t.Fatal(err)
			}
		}
		id := perfdata.SampleID{ID: 7, PID: 100, TID: 100, Time: 1e9}
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 100, Comm: "branching"})
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 100, TID: 100, Start: p.code.Vaddr &^ 4095,
			Length: p.code.Filesz + p.code.Vaddr&4095, Offset: p.code.Off &^ 4095, Protection: 5, Flags: 2, Filename: p.path})
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 101, Comm: "branching"})
		for i := range samples {
			id.Time += 1000
			id.TID = 100 + int32(i%2)
			samples[i].SampleID, samples[i].Period = id, 1000
			w.Write(perfdata.MiscUser, &samples[i])
		}
	})
}

// randomBranches returns samples with branches that are possible, and with some that are not.
func (p *branching) randomBranches() (samples []perfdata.Sample) {
	random := rand.New(rand.NewPCG(3, 4))
	straight := p.functions["straight"]
	first, _ := slices.BinarySearch(p.instructions, p.functions["leaf"].Value)
	somewhere := func() int { // index of an instruction of the small functions, sometimes of the long one before them
		if random.IntN(8) == 0 {
			return random.IntN(first)
		}
		return first + random.IntN(len(p.instructions)-first)
	}
	flags := func() perfdata.BranchFlags {
		f := perfdata.BranchFlags(random.Uint64N(16)) | perfdata.BranchFlags(random.Uint64N(15)<<20)
		if random.IntN(2) == 0 {
			f |= perfdata.BranchFlags(random.Uint64N(300) << 4)
		}
		return f
	}
	odd := []uint64{0, 1, 0x500000, 0xffffffff81000000, 0xffffffff81000010, straight.Value + 1}
	for range 400 {
		at := somewhere()
		s := perfdata.Sample{IP: p.instructions[at]}
		if random.IntN(8) == 0 {
			at = somewhere()
		}
		for range random.IntN(6) {
			to := max(0, at-random.IntN(12))
			next := somewhere()
			b := perfdata.Branch{From: p.instructions[next], To: p.instructions[to], Flags: flags()}
			switch random.IntN(20) {
			case 0:
				b.From = odd[random.IntN(len(odd))]
			case 1:
				b.From = b.To + 1 // in an instruction, or where others begin if To is in straight
				if b.To >= straight.Value+straight.Size {
					b.From = straight.Value + random.Uint64N(straight.Size-1)
				}
			}
			if random.IntN(20) == 0 {
				b.To = odd[random.IntN(len(odd))]
			}
			s.Branches = append(s.Branches, b)
			at = next
		}
		samples = append(samples, s)
	}
	return samples
}

// reaching returns the samples before which perf misses no branch. perf 6.1 also misses one at jumps with a condition.
func reaching(theirs, ours []byte) (theirsOfThem, oursOfThem []byte) {
	same := bytes.SplitAfter(ours, []byte("\n\n"))
	for i, sample := range bytes.SplitAfter(theirs, []byte("\n\n")) {
		if i < len(same) && !bytes.Contains(sample, []byte("... not reaching sample ...")) {
			theirsOfThem, oursOfThem = append(theirsOfThem, sample...), append(oursOfThem, same[i]...)
		}
	}
	return theirsOfThem, oursOfThem
}

// noLine is what both print of code that no line is known of: perf 7.2 has the file of the compilation unit and the line 0.
var noLine = regexp.MustCompile(`branching(\.c:0\b|\[ [0-9a-f]+)`)

// TestPrintsBlocksAsPerfDoes prints the instructions between the branches of samples.
func TestPrintsBlocksAsPerfDoes(t *testing.T) {
	program := compileBranching(t)
	file := program.record(t, program.randomBranches())
	for _, fields := range []string{"+brstackinsn", "+brstackinsnlen", "ip,brstackinsn", "comm,ip,sym,brstackinsn,brstackinsnlen",
		"ip,sym,srcline,brstackinsn,brstackinsnlen", "ip,sym,symoff,dso,insn,brstackinsn", "+srccode,+brstackinsn"} {
		t.Run(fields, func(t *testing.T) {
			got := besidePerfs(t, file, fields)
			for _, want := range []string{"\tinsn: ", "\tmismatch of LBR", "... not reaching sample ..."} {
				if !bytes.Contains(got, []byte(want)) {
					t.Errorf("nothing has %q", want)
				}
			}
		})
	}
}

// TestPrintsSourceAsPerfDoes prints the source lines of two threads' samples.
func TestPrintsSourceAsPerfDoes(t *testing.T) {
	program := compileBranching(t)
	file := program.record(t, program.randomBranches())
	for _, fields := range []string{"ip,srccode", "+srccode", "ip,sym,srcline,srccode"} {
		t.Run(fields, func(t *testing.T) {
			if got := besidePerfs(t, file, fields); !bytes.Contains(got, []byte("\n|5        \tcounter += n;\n")) {
				t.Error("there is no source")
			}
		})
	}
}

// TestSourceIsClean prints source with control characters and a long line.
func TestSourceIsClean(t *testing.T) {
	program := compileBranching(t)
	leaf := program.functions["leaf"].Value
	file := program.record(t, []perfdata.Sample{{IP: leaf}, {IP: leaf}, {IP: leaf}}) // of two threads
	text := strings.Repeat("\n", 4) + "\tred \x1b[31m" + strings.Repeat("x", 1000) + "\r\n"
	if err := os.WriteFile(program.path+".c", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Fields: NewSelection()}
	if err := o.Fields.Parse("tid,ip,srccode"); err != nil {
		t.Fatal(err)
	}
	got := string(printed(t, file, o, replay.Options{NoInline: true}))
	line := "|5        \tred ?[31m"
	line += strings.Repeat("x", maxSourceLine-len("\tred ?[31m")) + "\n"
	ip := strconv.FormatUint(leaf, 16)
	if want := "  100            " + ip + "\n" + line + "  101            " + ip + "\n" + line + "  100            " + ip + "\n"; got != want {
		t.Errorf("printed:\n%q\nwant\n%q", got, want)
	}
}

// TestSourceOfOthers does not print the source files that the owner of the program may not read.
func TestSourceOfOthers(t *testing.T) {
	require.Root(t)
	program := compileBranching(t)
	const nobody = 65534
	if err := os.Chown(program.path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	reader, err := perfdata.Open(program.record(t, []perfdata.Sample{{IP: program.functions["leaf"].Value}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o := Options{Fields: NewSelection()}
	if err := o.Fields.Parse("ip,srccode"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	stats, err := Print(&out, reader, o, replay.Options{NoInline: true})
	if err != nil || strings.Contains(out.String(), "counter") {
		t.Errorf("%v, printed:\n%s", err, &out)
	}
	if len(stats.Problems) != 1 || !strings.HasPrefix(stats.Problems[0], "source is left out: ") {
		t.Errorf("%q", stats.Problems)
	}
}

// besidePerfs compares fields of a recording with those of the machine's perf and of Debian testing's, and returns ours.
func besidePerfs(t *testing.T, file, fields string) []byte {
	t.Helper()
	o := Options{Fields: NewSelection()}
	if err := o.Fields.Parse(fields); err != nil {
		t.Fatal(err)
	}
	got := printed(t, file, o, replay.Options{NoInline: true})
	compareTo := func(t *testing.T, path string, part func(theirs, ours []byte) ([]byte, []byte)) {
		theirs, ours := part(runPerf(t, path, "script", "--no-inline", "-F", fields, "-i", file), got)
		compare(t, noLine.ReplaceAll(likeOld(theirs), nil), noLine.ReplaceAll(likeOld(ours), nil))
	}
	t.Run("machine", func(t *testing.T) {
		requirePerf(t)
		switch blocks := strings.Contains(fields, "brstackinsn"); {
		case blocks && strings.Contains(fields, "sr"):
			t.Skip("perf 6.1 prints no lines of branches, and misses others before the sample, which changes the next source line")
		case blocks:
			compareTo(t, perfPath(t), reaching)
		default:
			compareTo(t, perfPath(t), func(theirs, ours []byte) ([]byte, []byte) { return theirs, ours })
		}
	})
	t.Run("packaged", func(t *testing.T) {
		compareTo(t, require.NewestPerf(t), func(theirs, ours []byte) ([]byte, []byte) { return theirs, ours })
	})
	return got
}

// TestBlocksHaveALimit has a sample with more code than may be printed: it ends with a line that says so.
func TestBlocksHaveALimit(t *testing.T) {
	program := compileBranching(t)
	straight := program.functions["straight"]
	long := perfdata.Branch{From: straight.Value + straight.Size - 1, To: straight.Value}
	s := perfdata.Sample{IP: long.From}
	for range 1000 {
		s.Branches = append(s.Branches, long)
	}
	o := Options{Fields: NewSelection()}
	if err := o.Fields.Parse("ip,brstackinsn"); err != nil {
		t.Fatal(err)
	}
	got := printed(t, program.record(t, []perfdata.Sample{s}), o, replay.Options{NoInline: true})
	if len(got) > 64*maxBlocksCode || !bytes.HasSuffix(got, []byte("\t... more than 64 KiB of code ...\n\n")) {
		t.Errorf("%d bytes, which end with %q", len(got), got[max(0, len(got)-200):])
	}
}

// TestBlocksNeedAllBranches refuses to print blocks of a recording that has no branches, or only calls.
func TestBlocksNeedAllBranches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "every.data")
	everyType(t, path) // has all branches
	for file, want := range map[string]string{
		path: "", "../../perfdata/testdata/callchain.data": "brstackinsnlen cannot be printed; record them with -b"} {
		reader, err := perfdata.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Fields: NewSelection()}
		if err := o.Fields.Parse("+brstackinsnlen"); err != nil {
			t.Fatal(err)
		}
		_, err = Print(io.Discard, reader, o, elsewhere(t))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
		_ = reader.Close()
	}
}
