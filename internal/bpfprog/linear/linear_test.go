package linear

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/golden"
)

// recorded returns a feature of a file that perf 6.1 wrote on x86-64 with testdata/sum.c loaded.
func recorded(t testing.TB, feature string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/perf-6.1-x86_64." + feature)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func recordedPrograms(t testing.TB) []*Info {
	t.Helper()
	all, err := DecodePrograms(recorded(t, "prog_info"), binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func recordedBTF(t testing.TB) *btf.Spec {
	t.Helper()
	all, err := DecodeBTF(recorded(t, "btf"), binary.LittleEndian)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	spec, err := LoadBTF(all[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestPerf reads what perf has written.
func TestPerf(t *testing.T) {
	all := recordedPrograms(t)
	if len(all) != 1 {
		t.Fatalf("%d programs", len(all))
	}
	i := all[0]
	if i.LoadTime == 0 || i.JITedSize != 150 || i.TranslatedSize != 248 || !i.GPLCompatible || i.Maps != 0 || len(i.JITed) != 150 {
		t.Errorf("%+v", i)
	}
	p, err := i.Program(recordedBTF(t))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d type %d %s tag %s BTF %d\n", p.ID, p.Type, p.Name, p.Tag, p.BTF)
	for _, f := range p.Functions {
		fmt.Fprintf(&out, "%s %s tag %s at %#x size %d\n% x\n", f.Symbol, f.Name, f.Tag, f.Address, f.Size, f.Code)
		for _, l := range f.Lines {
			fmt.Fprintf(&out, "\t%#x %s:%d:%d %s\n", l.Address, l.File, l.Number, l.Column, l.Text)
		}
	}
	golden.Compare(t, "testdata/program.golden", out.String())
}

// TestAt looks up addresses between lines. The first line has no code, so its address belongs to the second.
func TestAt(t *testing.T) {
	f := Function{Address: 100, Size: 20, Lines: []Line{{Address: 104, Number: 1}, {Address: 104, Number: 2}, {Address: 110, Number: 3}}}
	for address, want := range map[uint64]uint32{100: 0, 103: 0, 104: 2, 109: 2, 110: 3, 119: 3} {
		got := uint32(0)
		if l := f.at(address); l != nil {
			got = l.Number
		}
		if got != want {
			t.Errorf("%d is in line %d, not %d", address, got, want)
		}
	}
}

// TestEncode checks that encoding returns perf's bytes, except for newer fields of perf's structure.
func TestEncode(t *testing.T) {
	want := recorded(t, "prog_info")
	got := AppendPrograms(nil, binary.LittleEndian, recordedPrograms(t))
	const head = 4 + blobHeader
	newer := int(binary.LittleEndian.Uint32(want[4:])) - infoSize
	want = append(want[:head+infoSize:head+infoSize], want[head+infoSize+newer:]...)
	binary.LittleEndian.PutUint32(want[4:], infoSize)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("programs: -want +got:\n%s", diff)
	}
	want = recorded(t, "btf")
	all, err := DecodeBTF(want, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, AppendBTF(nil, binary.LittleEndian, all)); diff != "" {
		t.Errorf("BTF: -want +got:\n%s", diff)
	}
}

// byteOrder can decode and encode.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// fullInfo has a value in each field and in each array.
func fullInfo() *Info {
	return &Info{Type: 1, ID: 2, Tag: [8]byte{3}, JITedSize: 4, TranslatedSize: 8, LoadTime: 5, UID: 6, Maps: 7, Name: "name", InterfaceIndex: 8,
		GPLCompatible: true, NetNSDevice: 9, NetNSInode: 10, BTF: 11, RunTime: 12, Runs: 13, JITed: []byte{1, 2, 3, 4}, Addresses: []uint64{1, 2},
		Sizes: []uint32{3, 4}, Functions: []FunctionInfo{{0, 1}, {2, 3}}, Lines: []LineInfo{{1, 2, 3, 4}}, JITedLines: []uint64{5},
		Tags: [][8]byte{{1}, {2}}}
}

// TestByteOrder encodes and decodes in both byte orders, and programs without arrays.
func TestByteOrder(t *testing.T) {
	for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
		want := append(recordedPrograms(t), fullInfo(), &Info{Type: 1, ID: 2, JITedSize: 5, Name: "short"}, &Info{Tags: [][8]byte{{1}}, Runs: 1 << 40})
		got, err := DecodePrograms(AppendPrograms(nil, order, want), order)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", order, diff)
		}
		all, err := DecodeBTF(AppendBTF(nil, order, []BTF{{1, []byte("abc")}, {2, []byte{}}}), order)
		if diff := cmp.Diff([]BTF{{1, []byte("abc")}, {2, []byte{}}}, all); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", order, err, diff)
		}
	}
}

// TestBigEndian decodes a structure of a big-endian machine, where the first bit field of a word is its highest bit.
func TestBigEndian(t *testing.T) {
	head := make([]byte, infoSize)
	copy(head[4:], []byte{0, 0, 1, 2})   // id
	copy(head[84:], []byte{0x80})        // gpl_compatible
	copy(head[104:], []byte{0, 0, 0, 1}) // nr_jited_ksyms
	section := []byte{0, 0, 0, 1, 0, 0, 0, infoSize, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1 << 3}
	section = append(append(section, head...), 0xff, 1, 2, 3, 4, 5, 6, 7)
	want := []*Info{{ID: 0x102, GPLCompatible: true, Addresses: []uint64{0xff01020304050607}}}
	got, err := DecodePrograms(section, binary.BigEndian)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestProgram checks programs in which something is missing or wrong.
func TestProgram(t *testing.T) {
	spec := recordedBTF(t)
	for _, test := range []struct {
		name   string
		change func(*Info)
		spec   *btf.Spec
		want   string // symbols, lines and bytes of the functions
		err    string
	}{
		{"all", func(*Info) {}, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 3 54, bpf_prog_3357a438f310e8a0_sum_up 3 96", ""},
		{"no BTF", func(*Info) {}, nil, "bpf_prog_ce6475ced2abe79e_a_name_longer_t 0 54, bpf_prog_3357a438f310e8a0_F 0 96", ""},
		{"no name", func(i *Info) { i.Name = "" }, nil, "bpf_prog_ce6475ced2abe79e 0 54, bpf_prog_3357a438f310e8a0_F 0 96", ""},
		{"hidden", func(i *Info) { i.Addresses, i.Sizes, i.JITed, i.JITedLines = nil, nil, nil, nil }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 0 0, bpf_prog_3357a438f310e8a0_sum_up 0 0", ""},
		{"not compiled", func(i *Info) { i.Addresses, i.Sizes, i.JITed, i.JITedSize = nil, nil, nil, 0 }, spec, "", ""},
		{"short code", func(i *Info) { i.JITed = i.JITed[:149] }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 0 54, bpf_prog_3357a438f310e8a0_sum_up 0 0",
			"code of function 2 has 96 bytes, of which there are 95"},
		{"no such type", func(i *Info) { i.Functions[1].Type = 1000 }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 3 54, bpf_prog_3357a438f310e8a0_F 3 96", "name of function 2 in BTF 565"},
		{"not a function", func(i *Info) { i.Functions[0].Type = 1 }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_t 3 54, bpf_prog_3357a438f310e8a0_F 3 96", "is a *btf."},
		{"lines without addresses", func(i *Info) { i.JITedLines = i.JITedLines[1:] }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 0 54, bpf_prog_3357a438f310e8a0_sum_up 0 96",
			"6 source lines and 5 addresses"},
		{"no such string", func(i *Info) { i.Lines[0].File = 1 << 30 }, spec,
			"bpf_prog_ce6475ced2abe79e_a_name_longer_than_15_bytes 0 54, bpf_prog_3357a438f310e8a0_sum_up 0 96", "source lines in BTF 565"},
	} {
		i := recordedPrograms(t)[0]
		test.change(i)
		p, err := i.Program(test.spec)
		var got []string
		for _, f := range p.Functions {
			got = append(got, fmt.Sprintf("%s %d %d", f.Symbol, len(f.Lines), len(f.Code)))
		}
		if s := strings.Join(got, ", "); s != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, s, test.want)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, not %q", test.name, err, test.err)
		}
	}
}

// TestHostile decodes sections whose lengths exceed their data.
func TestHostile(t *testing.T) {
	good := recorded(t, "prog_info")
	put := func(at int, v uint32) []byte {
		b := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	const info = 4 + blobHeader
	for _, test := range []struct {
		name, want string
		section    []byte
	}{
		{"empty", "too few for a count", nil},
		{"more programs", "program 2 of 4294967295, at byte 604: its head", put(0, 1<<32-1)},
		{"short structure", "program 1 of 1, at byte 4: struct bpf_prog_info has 191 bytes", put(4, 191)},
		{"long structure", "of which there are", put(4, 1<<32-1)},
		{"long data", "of which there are", put(8, 1<<32-1)},
		{"many instructions", "jited_prog_insns: 4294967295 elements of 1 bytes", put(info+16, 1<<32-1)},
		{"many functions", "func_info: 4294967295 elements of 8 bytes", put(info+144, 1<<32-1)},
		{"elements without a size", "func_info: elements have 0 bytes", put(info+132, 0)},
		{"long elements", "line_info: 6 elements of 4294967295 bytes", put(info+172, 1<<32-1)},
		{"far away", "jited_ksyms: 2 elements of 8 bytes at byte", put(info+112+4, 1<<31)},
		{"cut", "of which there are", good[:len(good)-1]},
	} {
		if _, err := DecodePrograms(test.section, binary.LittleEndian); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, not %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct{ name, section, want string }{
		{"empty", "", "too few for a count"},
		{"no BTF", "\x01\x00\x00\x00", "BTF 1 of 1, at byte 4: its head has 8 bytes, of which there are 0"},
		{"long BTF", "\x01\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\xff1", "it has 4294967295 bytes, of which there are 1"},
	} {
		if _, err := DecodeBTF([]byte(test.section), binary.LittleEndian); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, not %q", test.name, err, test.want)
		}
	}
	if _, err := LoadBTF([]byte("\x7fELF")); err == nil {
		t.Error("an ELF file is BTF")
	}
}

// TestCut decodes sections that are truncated anywhere.
func TestCut(t *testing.T) {
	for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
		programs := AppendPrograms(nil, order, []*Info{fullInfo(), fullInfo()})
		for n := range programs {
			if all, err := DecodePrograms(programs[:n], order); err == nil || len(all) > 1 {
				t.Errorf("%s: %d of %d bytes: %d programs, error %v", order, n, len(programs), len(all), err)
			}
		}
		types := AppendBTF(nil, order, []BTF{{1, []byte("abc")}, {2, []byte("def")}})
		for n := range types {
			if all, err := DecodeBTF(types[:n], order); err == nil || len(all) > 1 {
				t.Errorf("%s: %d of %d bytes: %d BTFs, error %v", order, n, len(types), len(all), err)
			}
		}
	}
}

// TestClaims decodes small sections with huge counts, which must not cost memory.
func TestClaims(t *testing.T) {
	claim := bytes.Repeat([]byte{0xff}, 1<<10)
	many := AppendPrograms(nil, binary.LittleEndian, []*Info{fullInfo()})
	many[3] = 0x40 // 1 Gi of them
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, section := range [][]byte{claim, many} {
		_, programsErr := DecodePrograms(section, binary.LittleEndian)
		_, typesErr := DecodeBTF(section, binary.LittleEndian)
		if programsErr == nil || typesErr == nil {
			t.Errorf("%d bytes that begin with % x are read", len(section), section[:4])
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used >= 1<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// FuzzDecode checks that everything that can be decoded is the same after encoding and decoding it again.
func FuzzDecode(f *testing.F) {
	f.Add(recorded(f, "prog_info"), recorded(f, "btf"), false)
	f.Add(AppendPrograms(nil, binary.BigEndian, recordedPrograms(f)), recorded(f, "btf"), true)
	f.Add(AppendPrograms(nil, binary.LittleEndian, []*Info{fullInfo(), fullInfo()}), AppendBTF(nil, binary.LittleEndian, []BTF{{1, nil}, {2, []byte("BTF")}}), false)
	f.Fuzz(func(t *testing.T, programs, types []byte, big bool) {
		var order byteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		var spec *btf.Spec
		all, _ := DecodeBTF(types, order)
		for _, b := range all {
			if s, err := LoadBTF(b.Data); err == nil {
				spec = s
			}
		}
		infos, _ := DecodePrograms(programs, order)
		for _, i := range infos {
			p, _ := i.Program(spec)
			for _, f := range p.Functions {
				f.at(f.Address)
			}
			again, rest, err := Decode(i.Append(nil, order), order)
			if err != nil || len(rest) > 0 {
				t.Fatal(err, len(rest))
			}
			if len(i.Name) > 15 {
				i.Name = i.Name[:15]
			}
			if diff := cmp.Diff(i, again); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
	})
}

// at returns the line whose code has an address: the last one that begins at it or before. It returns nil if there is none.
func (f *Function) at(address uint64) *Line {
	n := sort.Search(len(f.Lines), func(n int) bool { return f.Lines[n].Address > address })
	if n == 0 {
		return nil
	}
	return &f.Lines[n-1]
}
