package kernel

import (
	"bytes"
	"os"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/google/go-cmp/cmp"
)

// members returns the offsets and sizes of the members of a structure, in bits.
func members(t *testing.T, spec *btf.Spec, name string) map[string]btf.Bits {
	t.Helper()
	var s *btf.Struct
	if err := spec.TypeByName(name, &s); err != nil {
		t.Fatal(err)
	}
	at := map[string]btf.Bits{"": btf.Bits(8 * s.Size)}
	for _, m := range s.Members {
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			t.Fatal(err)
		}
		at[m.Name], at[m.Name+" size"] = m.Offset, btf.Bits(8*size)
	}
	return at
}

// TestNarrow compares some structures in the narrowed BTF with those in the whole BTF of the kernel.
func TestNarrow(t *testing.T) {
	raw, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Skip("the kernel has no BTF: ", err)
	}
	names := map[string]bool{"task_struct": true, "pid": true, "mm_struct": true}
	some, err := narrow(raw, names)
	if err != nil {
		t.Fatal(err)
	}
	if len(some) > len(raw)/10 {
		t.Errorf("%d bytes are left of %d", len(some), len(raw))
	}
	got, err := btf.LoadSpecFromReader(bytes.NewReader(some))
	if err != nil {
		t.Fatal(err)
	}
	want, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		if diff := cmp.Diff(members(t, want, name), members(t, got, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzNarrow(f *testing.F) {
	header := []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0, 5, 0, 0, 0}
	types := []byte{1, 0, 0, 0, 1, 0, 0, 4, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, // struct s { int i; }
		3, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 32, 0, 0, 0}
	f.Add(append(append(header, types...), 0, 's', 0, 'i', 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		some, err := narrow(raw, map[string]bool{"s": true})
		if err != nil {
			return
		}
		again, err := narrow(some, map[string]bool{"s": true})
		if err != nil || len(again) > len(some) {
			t.Fatalf("of %x %x was made, and of that %x (%v)", raw, some, again, err)
		}
	})
}
