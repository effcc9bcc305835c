package typed

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// number returns the low size bytes of a number.
func number(n uint64, size int) []byte {
	b := binary.NativeEndian.AppendUint64(nil, n)
	return b[:size]
}

func TestColumns(t *testing.T) {
	u32 := &btf.Int{Name: "u32", Size: 4}
	s16 := &btf.Int{Name: "s16", Size: 2, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	state := &btf.Enum{Name: "state", Size: 2, Values: []btf.EnumValue{{Name: "IDLE", Value: 0}, {Name: "BUSY", Value: 1}}}
	inner := &btf.Struct{Size: 8, Members: []btf.Member{{Name: "a", Type: u32}, {Name: "b", Type: u32, Offset: 32}}}
	all := &btf.Struct{Size: 48, Members: []btf.Member{
		{Name: "id", Type: &btf.Typedef{Name: "id_t", Type: u32}},
		{Name: "level", Type: s16, Offset: 32},
		{Name: "state", Type: state, Offset: 48},
		{Name: "comm", Type: &btf.Array{Type: char, Nelems: 8}, Offset: 64},
		{Name: "in", Type: inner, Offset: 128},
		{Name: "", Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "flat", Type: u32}}}, Offset: 192},
		{Name: "low", Type: u32, Offset: 224, BitfieldSize: 3},
		{Name: "high", Type: u32, Offset: 227, BitfieldSize: 5},
		{Name: "pair", Type: &btf.Array{Type: s16, Nelems: 2}, Offset: 256},
		{Name: "on", Type: &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}, Offset: 288},
		{Name: "either", Type: &btf.Union{Size: 2}, Offset: 304},
		{Name: "at", Type: &btf.Pointer{Target: u32}, Offset: 320},
		{Name: "odd", Type: &btf.Array{Type: inner, Nelems: 1}, BitfieldSize: 8}, // C has no such bit field
	}}
	value := slices.Concat(number(7, 4), number(0xffff, 2), number(1, 2), []byte("sh\x00junk!"), number(1, 4), number(2, 4), number(3, 4), number(5|9<<3, 4),
		number(0xfffe, 2), number(4, 2), []byte{1, 0, 0xab, 0xcd}, number(0xfff0, 8))
	var names []string
	var got []any
	for _, c := range Columns("value", all, all.Size) {
		names = append(names, c.Name)
		got = append(got, c.Read(value))
	}
	if diff := cmp.Diff([]string{"id", "level", "state", "comm", "in.a", "in.b", "flat", "low", "high", "pair[0]", "pair[1]", "on", "either", "at"}, names); diff != "" {
		t.Error(diff)
	}
	want := []any{uint64(7), int64(-1), "BUSY", "sh", uint64(1), uint64(2), uint64(3), uint64(5), uint64(9), int64(-2), int64(4), true, "abcd", "0xfff0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for n := range value { // a value that is too short must not panic
		for _, c := range Columns("value", all, all.Size) {
			c.Read(value[:n])
		}
	}
	if got := Columns("key", nil, 3)[0].Read([]byte{1, 2, 3}); got != "010203" {
		t.Errorf("bytes of no type are %v", got)
	}
	if got := Columns("key", u32, 4); len(got) != 1 || got[0].Name != "key" {
		t.Errorf("%+v", got)
	}
}

func TestSums(t *testing.T) {
	for _, tt := range []struct {
		typ  btf.Type
		want any
	}{
		{&btf.Int{Size: 4}, uint64(6)}, {&btf.Int{Size: 4, Encoding: btf.Signed}, int64(6)}, {&btf.Int{Size: 1, Encoding: btf.Bool}, true},
		{&btf.Pointer{Target: &btf.Void{}}, "0x1"},
		{&btf.Struct{Size: 8, Members: []btf.Member{{Name: "slots", Type: &btf.Array{Type: &btf.Int{Size: 4}, Nelems: 2}}}}, []uint64{6, 0}},
	} {
		each := [][]byte{append(number(1, 4), make([]byte, 4)...), append(number(2, 4), make([]byte, 4)...), append(number(3, 4), make([]byte, 4)...)}
		if got := Columns("value", tt.typ, 0)[0].Sum(each); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.typ, got, tt.want)
		}
	}
}

// FuzzColumns reads values by types of untrusted BTF.
func FuzzColumns(f *testing.F) {
	spec, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "s", Size: 16, Members: []btf.Member{
		{Name: "a", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, BitfieldSize: 3},
		{Name: "b", Type: &btf.Array{Type: &btf.Int{Name: "char", Size: 1}, Index: &btf.Int{Name: "index", Size: 4}, Nelems: 8}, Offset: 64},
	}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	encoded, err := spec.Marshal(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded, []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, types, value []byte) {
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(types))
		if err != nil {
			return
		}
		for t, err := range spec.All() {
			if err != nil {
				return
			}
			for _, c := range Columns("value", t, uint32(len(value))) {
				c.Read(value)
				c.Sum([][]byte{value, value})
			}
		}
	})
}
