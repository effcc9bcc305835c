package userprog

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/typed"
	"github.com/bperf/bperf/test/onsample"
)

var (
	u32   = &btf.Int{Name: "__u32", Size: 4}
	u64   = &btf.Int{Name: "__u64", Size: 8}
	s32   = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	boole = &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}
	char  = &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
)

func text(size uint32) btf.Type { return &btf.Array{Type: char, Index: u32, Nelems: size} }

// structure returns a structure without padding. Its arguments are names and types in turn.
func structure(members ...any) *btf.Struct {
	s := &btf.Struct{Name: "s"}
	for i := 0; i < len(members); i += 2 {
		t := members[i+1].(btf.Type)
		size, err := btf.Sizeof(t)
		if err != nil {
			panic(err)
		}
		s.Members = append(s.Members, btf.Member{Name: members[i].(string), Type: t, Offset: btf.Bits(8 * s.Size)})
		s.Size += uint32(size)
	}
	return s
}

// TestProfiles checks which keys and values make a map a profile.
func TestProfiles(t *testing.T) {
	stacks := &ebpf.MapSpec{Name: "stacks", Type: ebpf.StackTrace}
	for _, tt := range []struct {
		name       string
		key, value btf.Type
		values     []string // nil if the map is no profile
		keys       []string
		labels     []string
	}{
		{"a number", u32, u64, nil, nil, nil},
		{"nothing known", structure("dev", u32, "sector", u64), u64, nil, nil, nil},
		{"no number in the value", structure("pid", u32), structure("comm", text(16), "is", boole), nil, nil, nil},
		{"arrays in the value", structure("pid", u32), structure("slots", &btf.Array{Type: u32, Nelems: 8}), nil, nil, nil},
		{"a process", structure("pid", u32), u64, []string{"m"}, []string{"comm"}, nil},
		{"a CPU", structure("cpu", u32), &btf.Typedef{Name: "count_t", Type: u64}, []string{"m"}, []string{"cpu"}, nil},
		{"stack and label", &btf.Typedef{Name: "key_t", Type: structure("type", u32, "kern_stack_id", s32, "user_stack_id", s32)}, structure("ns", u64, "n", u32),
			[]string{"m.ns", "m.n"}, []string{"type", "stack"}, []string{"type"}},
		{"cgroup and address", structure("cgroup_id", u64, "ip", u64, "other", structure("flag", boole)), s32, []string{"m"}, []string{"cgroup", "other.flag", "ip"}, []string{"other.flag"}},
		{"another name of 16 letters", structure("file", text(16), "comm", text(16)), u64, []string{"m"}, []string{"comm", "file"}, []string{"file"}},
	} {
		spec := &ebpf.MapSpec{Name: "m", Type: ebpf.Hash, Key: tt.key, Value: tt.value}
		o := &object{spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"m": spec, "stacks": stacks}}}
		m := o.profile(spec)
		if m == nil {
			if tt.values != nil {
				t.Errorf("%s: no profile", tt.name)
			}
			continue
		}
		if !slices.Equal(m.Values, tt.values) || !slices.Equal(m.Keys(), tt.keys) || !slices.Equal(m.Labels, tt.labels) {
			t.Errorf("%s: values %v, keys %v, labels %v; want %v, %v, %v", tt.name, m.Values, m.Keys(), m.Labels, tt.values, tt.keys, tt.labels)
		}
	}
}

// TestProcessAndThread checks the names by which keys identify processes and threads.
func TestProcessAndThread(t *testing.T) {
	for _, tt := range []struct {
		names           []string
		process, thread string
		labels          []string
	}{
		{[]string{"pid"}, "pid", "", nil},
		{[]string{"pid", "tid"}, "pid", "tid", nil},
		{[]string{"pid", "tgid"}, "tgid", "pid", nil},
		{[]string{"tgid", "tid", "pid"}, "tgid", "tid", []string{"pid"}},
		{[]string{"tid", "x"}, "", "tid", []string{"x"}},
	} {
		var members []any
		for _, name := range tt.names {
			members = append(members, name, u32)
		}
		m := &Profile{object: &object{spec: &ebpf.CollectionSpec{}}}
		m.takeKey(typed.Columns("key", structure(members...), 0))
		name := func(c *typed.Column) string {
			if c == nil {
				return ""
			}
			return c.Name
		}
		if name(m.process) != tt.process || name(m.thread) != tt.thread || !slices.Equal(m.Labels, tt.labels) {
			t.Errorf("%v: process %s, thread %s, labels %v", tt.names, name(m.process), name(m.thread), m.Labels)
		}
	}
}

// TestStacksOf checks which map of stacks a member refers to.
func TestStacksOf(t *testing.T) {
	stacks := func(flags uint32, names ...string) *object {
		o := &object{spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"hash": {Name: "hash", Type: ebpf.Hash}}}}
		for _, name := range names {
			o.spec.Maps[name] = &ebpf.MapSpec{Name: name, Type: ebpf.StackTrace, Flags: flags}
		}
		return o
	}
	for _, tt := range []struct {
		o            *object
		member, want string
	}{
		{stacks(0), "stack_id", ""},
		{stacks(1<<5, "with_build_ids"), "stack_id", ""},
		{stacks(0, "stackmap"), "user_stack_id", "stackmap"},
		{stacks(0, "kstacks", "ustacks"), "key.ustack_id", "ustacks"},
		{stacks(0, "kstacks", "ustacks"), "kernel_stack", "kstacks"},
	} {
		got := ""
		if m := tt.o.stacksOf(&typed.Column{Name: tt.member}); m != nil {
			got = m.Name
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.member, got, tt.want)
		}
	}
}

// TestIsNew checks the subtraction of previous values.
func TestIsNew(t *testing.T) {
	m := &Profile{previous: make(map[string][]uint64)}
	for _, tt := range []struct {
		now, want []uint64
		isNew     bool
	}{
		{[]uint64{5, 0}, []uint64{5, 0}, true},
		{[]uint64{5, 0}, []uint64{0, 0}, false},
		{[]uint64{7, 1}, []uint64{2, 1}, true},
		{[]uint64{3, 1}, []uint64{3, 0}, true}, // the entry was deleted and created again
		{[]uint64{0, 1}, []uint64{0, 0}, false},
	} {
		e := &Entry{Values: slices.Clone(tt.now)}
		if isNew := m.isNew([]byte("key"), e); isNew != tt.isNew || !reflect.DeepEqual(e.Values, tt.want) {
			t.Errorf("%v: %v, %v; want %v, %v", tt.now, e.Values, isNew, tt.want, tt.isNew)
		}
	}
}

// TestNoProgramOnSamples reads an object without a program that runs on samples.
func TestNoProgramOnSamples(t *testing.T) {
	object := onsample.WriteTool(t, "offcputime")
	p, err := Read([]string{object}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if p.OnSamples(object) {
		t.Error("it runs on samples")
	}
	all := p.Profiles()
	if len(all) != 1 || all[0].Map != "info" || !slices.Equal(all[0].Values, []string{"info.delta"}) || !slices.Equal(all[0].Keys(), []string{"comm", "stack"}) {
		t.Errorf("profiles: %+v", all)
	}
}
