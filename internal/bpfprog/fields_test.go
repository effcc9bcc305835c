package bpfprog

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
)

// TestFields looks for fields of a kernel's structure, which is not where the program expects it, and of one of the program's own.
func TestFields(t *testing.T) {
	number, long := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	member := func(name string, at uint32, typ btf.Type) btf.Member {
		return btf.Member{Name: name, Type: typ, Offset: btf.Bits(8 * at)}
	}
	program := newSpec(t,
		&btf.Struct{Name: "task_struct___old", Size: 8, Members: []btf.Member{member("tgid", 0, number), member("gone", 4, number)}},
		&btf.Struct{Name: "mine", Size: 24, Members: []btf.Member{member("busy", 8, long), member("lock", 16, number),
			{Name: "bit", Type: number, Offset: 160, BitfieldSize: 1}}},
		&btf.Struct{Name: "other", Size: 32, Members: []btf.Member{member("busy", 24, long), member("lock", 16, number)}})
	kernel := newSpec(t, &btf.Struct{Name: "task_struct", Size: 2400, Members: []btf.Member{member("tgid", 2336, number)}})
	for _, test := range []struct {
		in   raw
		line string
		want string
	}{
		{raw{0x61, 1, 2, 2336, 0}, "pid = task->tgid;", "task_struct.tgid"},
		{raw{0x61, 1, 2, 0, 0}, "pid = task->tgid;", ""},
		{raw{0x79, 1, 2, 2336, 0}, "pid = task->tgid;", ""}, // another size
		{raw{0x61, 1, 2, 2336, 0}, "pid = tgid;", ""},
		{raw{0x61, 1, 2, 4, 0}, "task->gone", "task_struct.gone"},
		{raw{0x7b, 1, 2, 8, 0}, "c->busy = 1 + d.x", "mine.busy"},
		{raw{0x7a, 1, 0, 24, 1}, "(*c).busy = 1.5", "other.busy"},
		{raw{0xdb, 1, 2, 8, 1}, "__sync_fetch_and_add(&c->busy, 1)", "mine.busy"},
		{raw{0x61, 1, 2, 16, 0}, "c->lock", ""}, // of either
		{raw{0x61, 1, 2, 20, 0}, "c->bit", ""},
		{raw{0x7b, 10, 2, 8, 0}, "c->busy", ""}, // the stack
		{raw{0x0f, 1, 2, 8, 0}, "c->busy", ""},
		{raw{0x79, 1, 2, 8, 0}, "->.>-. ", ""},
	} {
		f := &fields{program: program, kernel: func() *btf.Spec { return kernel }}
		b := disasm.DecodeBPF(assemble([]raw{test.in}))[0]
		if got := f.of(b, &Line{Text: test.line}); got != test.want {
			t.Errorf("%s of %q: %q, want %q", b, test.line, got, test.want)
		}
		if got := f.of(b, nil); got != "" {
			t.Errorf("without a line: %q", got)
		}
	}
	f := &fields{program: program, kernel: func() *btf.Spec { return nil }}
	if got := f.of(disasm.DecodeBPF(assemble([]raw{{0x61, 1, 2, 0, 0}}))[0], &Line{Text: "t->tgid"}); got != "task_struct.tgid" {
		t.Errorf("without the kernel's types: %q", got)
	}
}

func newSpec(t *testing.T, types ...btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}
