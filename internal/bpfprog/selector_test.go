package bpfprog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRefuses(t *testing.T) {
	const forms = "name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID"
	for list, want := range map[string]string{
		"":                       `BPF programs: the list is empty; give IDs, all, or ` + forms,
		",":                      `BPF programs: the list is empty; give IDs, all, or ` + forms,
		" ":                      `BPF programs: the list is empty; give IDs, all, or ` + forms,
		"1,":                     `BPF programs: "1,": item 2 of the list is empty`,
		",1":                     `BPF programs: ",1": item 1 of the list is empty`,
		"0":                      `BPF programs: "0": an ID is a number from 1 to 2147483647`,
		"-1":                     `BPF programs: "-1": an ID is a number from 1 to 2147483647`,
		"+1":                     `BPF programs: "+1": an ID is a number from 1 to 2147483647`,
		"4294967297":             `BPF programs: "4294967297": an ID is a number from 1 to 2147483647`,
		"2147483648":             `BPF programs: "2147483648": an ID is a number from 1 to 2147483647`,
		"7,foo":                  `BPF programs: "foo": this is no ID; a program is selected by its name as "name:foo", and else as ` + forms,
		"1x":                     `BPF programs: "1x": this is no ID; a program is selected by its name as "name:1x", and else as ` + forms,
		"nmae:x":                 `BPF programs: "nmae:x": nothing is selected by "nmae" (did you mean name?); give IDs, all, or ` + forms,
		"id:7":                   `BPF programs: "id:7": nothing is selected by "id" (did you mean pid?); give IDs, all, or ` + forms,
		"all:x":                  `BPF programs: "all:x": nothing is selected by "all"; give IDs, all, or ` + forms,
		":x":                     `BPF programs: ":x": nothing is selected by ""; give IDs, all, or ` + forms,
		"name:":                  `BPF programs: "name:": nothing stands behind "name:"`,
		"name:[a":                `BPF programs: "name:[a": this is no pattern: a bracket is not closed, or is empty, or a backslash is the last`,
		`name:x*\`:               `BPF programs: "name:x*\\": this is no pattern: a bracket is not closed, or is empty, or a backslash is the last`,
		"tag:0123":               `BPF programs: "tag:0123": a tag has 16 hexadecimal digits`,
		"tag:0123456789abcde":    `BPF programs: "tag:0123456789abcde": a tag has 16 hexadecimal digits`,
		"tag:0123456789abcdeg":   `BPF programs: "tag:0123456789abcdeg": a tag has 16 hexadecimal digits`,
		"tag:0x0123456789abcdef": `BPF programs: "tag:0x0123456789abcdef": a tag has 16 hexadecimal digits`,
		"type:raw_tp":            `BPF programs: "type:raw_tp": there is no type "raw_tp"`,
		"type:sockt_filter":      `BPF programs: "type:sockt_filter": there is no type "sockt_filter" (did you mean socket_filter?)`,
		"link:0":                 `BPF programs: "link:0": "0" is no number from 1 to 2147483647`,
		"link:x":                 `BPF programs: "link:x": "x" is no number from 1 to 2147483647`,
		"pid:-1":                 `BPF programs: "pid:-1": "-1" is no number from 1 to 2147483647`,
	} {
		s, err := Parse(list)
		var syntax *syntaxError
		if s != nil || !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%q: %v, %v\nwant %s", list, s, err, want)
		}
	}
}

// fake is a Source with fixed answers. It returns an error for everything else.
type fake struct {
	maps         map[string][]uint32
	links        map[uint32]uint32
	pins         map[string]uint32
	cgroups, pid map[string][]uint32
}

var errFake = errors.New("not there")

func find[K comparable, V any](m map[K]V, key K) (V, error) {
	v, ok := m[key]
	if !ok {
		return v, errFake
	}
	return v, nil
}

func (f fake) MapsNamed(name string) ([]uint32, error)        { return find(f.maps, name) }
func (f fake) LinkProgram(link uint32) (uint32, error)        { return find(f.links, link) }
func (f fake) PinnedProgram(path string) (uint32, error)      { return find(f.pins, path) }
func (f fake) CgroupPrograms(cgroup string) ([]uint32, error) { return find(f.cgroups, cgroup) }
func (f fake) Held(pid int) ([]uint32, error)                 { return find(f.pid, fmt.Sprint(pid)) }

func TestSelect(t *testing.T) {
	programs := []*Program{
		{ID: 3, Type: 17, Name: "on_switch", Tag: "00000000000000ab", MapIDs: []uint32{10, 11}},
		{ID: 5, Type: 17, Name: "on_newtask", Tag: "00000000000000cd", MapIDs: []uint32{11}},
		{ID: 9, Type: 1, Name: "", Tag: "00000000000000ab"},
		{ID: 20, Type: 6, Name: "a_name_of_more_than_15_bytes", Tag: "00000000000000ef", MapIDs: []uint32{12}},
	}
	source := fake{
		maps: map[string][]uint32{"counts": {12, 10}, "unused": {99}}, links: map[uint32]uint32{7: 5, 8: 1234},
		pins: map[string]uint32{"/sys/fs/bpf/x": 20}, cgroups: map[string][]uint32{"/a": {9, 3}, "/none": nil}, pid: map[string][]uint32{"77": {20, 5}},
	}
	for _, test := range []struct {
		list    string
		want    []uint32
		missing string
	}{
		{list: "5", want: []uint32{5}},
		{list: "9,3,9,03", want: []uint32{9, 3}},
		{list: "all", want: []uint32{3, 5, 9, 20}},
		{list: "20,all", want: []uint32{20, 3, 5, 9}},
		{list: "name:on_*", want: []uint32{3, 5}},
		{list: "name:on_switch", want: []uint32{3}},
		{list: "name:on_[!s]*", want: []uint32{5}},
		{list: "name:*15_bytes", want: []uint32{20}},
		{list: "name:a_name_of_more_", missing: `no BPF program is selected by "name:a_name_of_more_": none of those that are loaded matches`},
		{list: "tag:00000000000000AB", want: []uint32{3, 9}},
		{list: "type:xdp,type:raw_tracepoint", want: []uint32{20, 3, 5}},
		{list: "map:11", want: []uint32{3, 5}},
		{list: "map:counts", want: []uint32{3, 20}},
		{list: "map:unused", missing: `no BPF program is selected by "map:unused": none of those that are loaded matches`},
		{list: "map:other", missing: `no BPF program is selected by "map:other": not there`},
		{list: "link:7", want: []uint32{5}},
		{list: "link:8", missing: `no BPF program is selected by "link:8": none of those that are loaded matches`},
		{list: "link:9", missing: `no BPF program is selected by "link:9": not there`},
		{list: "pinned:/sys/fs/bpf/x", want: []uint32{20}},
		{list: "pinned:/sys/fs/bpf/y", missing: `no BPF program is selected by "pinned:/sys/fs/bpf/y": not there`},
		{list: "cgroup:/a", want: []uint32{3, 9}},
		{list: "cgroup:/none", missing: `no BPF program is selected by "cgroup:/none": none of those that are loaded matches`},
		{list: "pid:77", want: []uint32{5, 20}},
		{list: "5,pid:1,type:lsm,3", want: []uint32{5, 3}, missing: `no BPF program is selected by "pid:1": not there` + "\n" +
			`no BPF program is selected by "type:lsm": none of those that are loaded matches`},
		{list: "1000", missing: `no BPF program is selected by "1000": none of those that are loaded matches`},
	} {
		s, err := Parse(test.list)
		if err != nil {
			t.Errorf("%s: %v", test.list, err)
			continue
		}
		selected, missing := s.Select(programs, source)
		var got []uint32
		for _, p := range selected {
			got = append(got, p.ID)
		}
		var lines []string
		for _, m := range missing {
			lines = append(lines, m.Error())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.list, diff)
		}
		if diff := cmp.Diff(test.missing, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s: missing: -want +got:\n%s", test.list, diff)
		}
	}
}

// FuzzParse wants, for any input, items that select without a panic or an error of one line.
func FuzzParse(f *testing.F) {
	for _, list := range []string{"1,2", "all", "name:a*,tag:0123456789abcdef", "pid:1,map:x,map:7", "name:[", "type:xdp", ",", "x:\n", "name:\xff"} {
		f.Add(list)
	}
	programs := []*Program{{ID: 1, Type: 1, Name: "a", Tag: "0123456789abcdef", MapIDs: []uint32{1}}, {ID: 2, Type: 6}}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := Parse(list)
		if err != nil {
			var syntax *syntaxError
			if s != nil || !errors.As(err, &syntax) || strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("%q: %v, %q", list, s, err)
			}
			return
		}
		if len(s) != strings.Count(list, ",")+1 {
			t.Errorf("%q: %d items", list, len(s))
		}
		selected, missing := s.Select(programs, fake{})
		if len(selected) > len(programs) || len(selected) == 0 && len(missing) == 0 {
			t.Errorf("%q selects %d programs, %d items select none", list, len(selected), len(missing))
		}
	})
}
