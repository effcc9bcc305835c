package bpfprog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// someBTF returns BTF with a type of each kind that has its own size; the last type is a function.
func someBTF(t testing.TB) (data []byte, types []btf.Type) {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	member := []btf.Member{{Name: "a", Type: number}, {Name: "b", Type: number, Offset: 32}}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	global := &btf.Var{Name: "variable", Type: number, Linkage: btf.GlobalVar}
	types = []btf.Type{
		number,
		&btf.Array{Index: number, Type: number, Nelems: 3},
		&btf.Struct{Name: "structure", Size: 8, Members: member},
		&btf.Union{Name: "union", Size: 8, Members: []btf.Member{{Name: "a", Type: number}}},
		&btf.Enum{Name: "small", Size: 4, Values: []btf.EnumValue{{Name: "ONE", Value: 1}, {Name: "TWO", Value: 2}}},
		&btf.Enum{Name: "large", Size: 8, Values: []btf.EnumValue{{Name: "HUGE", Value: 1 << 40}}},
		&btf.Fwd{Name: "forward", Kind: btf.FwdStruct},
		&btf.Typedef{Name: "alias", Type: number},
		&btf.Const{Type: number},
		&btf.Float{Name: "float", Size: 4},
		global,
		&btf.Datasec{Name: ".data", Size: 4, Vars: []btf.VarSecinfo{{Type: global, Size: 4}}},
		&btf.Func{Name: "tagged", Type: proto, Linkage: btf.StaticFunc, Tags: []string{"a_tag"}},
		&btf.Func{Name: longName, Type: proto, Linkage: btf.GlobalFunc},
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err = b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data, types
}

// TestTypeName compares names with those that cilium/ebpf reads.
func TestTypeName(t *testing.T) {
	data, types := someBTF(t)
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for id := uint32(1); ; id++ {
		want, err := spec.TypeByID(btf.TypeID(id))
		if err != nil {
			break
		}
		if got := typeName(data, id); want.TypeName() != "" && got != want.TypeName() { // cilium/ebpf has no names for tags
			t.Errorf("type %d, %v: %q", id, want, got)
		}
		found[want.TypeName()] = true
	}
	for _, want := range types {
		if !found[want.TypeName()] {
			t.Errorf("%v was not there to be compared", want)
		}
	}
	for _, none := range []uint32{0, uint32(1000), 1<<32 - 1} {
		if got := typeName(data, none); got != "" {
			t.Errorf("type %d: %q", none, got)
		}
	}
	for n := range data { // truncated anywhere, it has at most a part of the name
		if got := typeName(data[:n], 1); !strings.HasPrefix("int", got) {
			t.Errorf("the first %d bytes: %q", n, got)
		}
	}
}

func FuzzTypeName(f *testing.F) {
	data, _ := someBTF(f)
	f.Add(data, uint32(14))
	f.Add(data[:30], uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, id uint32) { typeName(data, id) })
}
