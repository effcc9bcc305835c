package script

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// library returns an ELF file of this machine with symbols, the start of its code, and its functions as offsets in the file.
func library(t *testing.T) (path string, code elf.ProgHeader, functions []uint64) {
	t.Helper()
	files, _ := filepath.Glob("/usr/lib/*-linux-gnu/libc.so.6")
	if len(files) == 0 {
		t.Skip("needs a libc")
	}
	f, err := elf.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			code = p.ProgHeader
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value >= code.Vaddr && s.Value < code.Vaddr+code.Filesz {
			functions = append(functions, s.Value-code.Vaddr+code.Off)
		}
	}
	if len(functions) == 0 {
		t.Fatalf("%s has no functions", files[0])
	}
	return files[0], code, functions
}

// hardware writes what test machines lack: branches, registers and memory accesses.
func hardware(t *testing.T) string {
	t.Helper()
	everything := perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleAddr | perfdata.SampleCPU |
		perfdata.SamplePeriod | perfdata.SampleBranchStack | perfdata.SampleRegsUser | perfdata.SampleWeightStruct | perfdata.SampleDataSrc |
		perfdata.SampleTransaction | perfdata.SampleRegsIntr | perfdata.SamplePhysAddr | perfdata.SampleDataPageSize | perfdata.SampleCodePageSize
	const userRegs, intrRegs = 0xff0fff, 0x00ffff &^ 0xf000
	event := &perfdata.Event{Name: "cpu/mem-loads/", IDs: []uint64{7}, Attr: perfdata.Attr{Type: 4, Config: 0x1cd, SamplePeriod: 1000,
		Flags: perfdata.AttrSampleIDAll | perfdata.AttrPreciseIP2, SampleType: everything, SampleRegsUser: userRegs, SampleRegsIntr: intrRegs,
		BranchSampleType: perfdata.BranchAny | perfdata.BranchTypeSave}}
	return perffile.Write(t, []*perfdata.Event{event}, map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureArch: perfdata.Text("x86_64"), perfdata.FeatureBranchStack: perfdata.Flag{},
		perfdata.FeatureCPUID: perfdata.Text("GenuineIntel,6,143,8"), perfdata.FeatureNRCPUs: perfdata.NRCPUs{Available: 2, Online: 2}}, func(w *perfdata.Writer) {
		id := perfdata.SampleID{ID: 7, PID: 100, TID: 101, Time: 1e9}
		lib, code, functions := library(t)
		const base = 0x7f0000000000
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 100, Comm: "worker"})
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 101, Comm: "worker"})
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 100, TID: 100, Start: base + code.Off, Length: code.Filesz, Offset: code.Off,
			Protection: 5, Flags: 2, Filename: lib})
		random := rand.New(rand.NewPCG(1, 2))
		somewhere := func() uint64 {
			if random.IntN(8) == 0 {
				return 0x500000 + random.Uint64N(1<<20)
			}
			return base + code.Off + random.Uint64N(code.Filesz)
		}
		words := func(n int) []uint64 {
			all := make([]uint64, n)
			for i := range all {
				all[i] = random.Uint64() >> random.IntN(64)
			}
			return all
		}
		pages := []uint64{0, 4096, 2 << 20, 1 << 30, 16384}
		for i := range 300 {
			id.Time += 1000
			id.CPU = uint32(i % 2)
			s := &perfdata.Sample{SampleID: id, IP: base + functions[random.IntN(len(functions))], Addr: random.Uint64() >> random.IntN(64), Period: random.Uint64N(1e6),
				Weight: perfdata.Weight(random.Uint64() >> random.IntN(40)), DataSource: source(random),
				Transaction: random.Uint64() & 0xff, PhysAddr: random.Uint64() >> 20, DataPageSize: pages[i%5], CodePageSize: pages[i/5%5],
				UserRegs: perfdata.Registers{ABI: 2, Mask: userRegs, Values: words(20)}, IntrRegs: perfdata.Registers{ABI: 2, Mask: intrRegs, Values: words(12)}}
			for range random.IntN(9) {
				s.Branches = append(s.Branches, perfdata.Branch{From: somewhere(), To: somewhere(),
					Flags: perfdata.BranchFlags(random.Uint64()&(1<<20-1) | random.Uint64N(15)<<20 | random.Uint64N(4)<<24)})
			}
			w.Write(perfdata.MiscUser|perfdata.MiscExactIP, s)
		}
	})
}

// source returns a random data source whose description fits into perf's buffer.
func source(random *rand.Rand) perfdata.DataSource {
	one := func(at, n int) uint64 { return 1 << random.IntN(n) << at }
	v := one(0, 5) | random.Uint64N(3)<<24 | one(26+3, 2) | one(26+1, 2) | one(19, 5)
	switch random.IntN(3) {
	case 0:
		v |= one(5+3, 11) | one(5+1, 2)
	case 1:
		number := random.Uint64N(16)
		v |= number<<33 | one(5+1, 2)
		if number < 4 && random.IntN(2) == 0 {
			v |= random.Uint64N(5) << 43 // hops
		} else {
			v |= random.Uint64N(2) << 37 // remote
		}
	case 2:
		v |= one(40, 3) | one(38, 2)
	}
	return perfdata.DataSource(v)
}

// How perf's versions differ: since 6.2 it prints the outcome of speculation; since 6.12 it prints one level, hops, and a blank before
// files. The padding of data_src grows with the text before it.
var (
	speculation = regexp.MustCompile(`(/[A-Z_]*)/(?:-|SPEC_WRONG_PATH|NON_SPEC_CORRECT_PATH|SPEC_CORRECT_PATH) `)
	inMemory    = regexp.MustCompile(`0x7f00000*`)
	level       = regexp.MustCompile(`\|LVL [^|]*`)
)

func withoutLevel(text []byte) []byte { return level.ReplaceAll(text, nil) }

func oneBlank(text []byte) []byte {
	return bytes.ReplaceAll(columns.ReplaceAllFunc(text, func(blanks []byte) []byte { return blanks[:1] }), []byte(" ("), []byte("("))
}

// TestPrintsHardwareAsPerfDoes prints data that only hardware provides which the test machines lack.
func TestPrintsHardwareAsPerfDoes(t *testing.T) {
	requirePerf(t)
	file := hardware(t)
	for _, fields := range []string{
		"comm,tid,time,event,ip,sym,dso",
		"ip,sym,brstack", "ip,brstack,dso", "ip,sym,brstacksym", "ip,sym,dso,brstacksym", "ip,brstackoff", "ip,dso,brstackoff",
		"ip,iregs", "ip,uregs", "ip,iregs,uregs",
		"ip,sym,insn", "ip,insnlen,insn,phys_addr", "comm,ip,callindent,synth,sym", "comm,ip,ipc,machine_pid,vcpu,sym",
		"ip,data_src", "ip,weight,ins_lat,retire_lat", "phys_addr,addr", "ip,data_page_size,code_page_size", "ip,flags,sym",
		"comm,time,event,addr,data_src,weight,ip,sym,brstack,uregs,phys_addr,data_page_size",
	} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			o := Options{Fields: NewSelection()}
			if err := o.Fields.Parse(fields); err != nil {
				t.Fatal(err)
			}
			theirs := func(text []byte) []byte {
				if strings.Contains(fields, "brstackoff") { // for a file whose symbols perf has read, it prints memory addresses in place of offsets
					text = inMemory.ReplaceAll(text, []byte("0x"))
				}
				return oneBlank(text)
			}
			got := oneBlank(printed(t, file, o, replay.Options{NoInline: true}))
			if !strings.Contains(fields, "retire_lat") { // 6.1 has none
				want := theirs(perf(t, "script", "--no-inline", "-F", fields, "-i", file))
				compare(t, withoutLevel(want), withoutLevel(speculation.ReplaceAll(got, []byte("$1 "))))
			}
			t.Run("packaged", func(t *testing.T) {
				compare(t, theirs(runPerf(t, require.NewestPerf(t), "script", "--no-inline", "-F", fields, "-i", file)), got)
			})
		})
	}
}
