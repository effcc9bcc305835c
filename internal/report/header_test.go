package report

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/perfdata"
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
	check(Header(&out, r, false))
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
