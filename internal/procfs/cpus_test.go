package procfs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCPUList(t *testing.T) {
	tests := []struct {
		list string
		want []int
		err  string
	}{
		{list: "0", want: []int{0}},
		{list: "0-3,7", want: []int{0, 1, 2, 3, 7}},
		{list: "7,0-1\n", want: []int{0, 1, 7}},
		{list: "5-5", want: []int{5}},
		{list: "", err: `CPU list "": is empty`},
		{list: "\n", err: `CPU list "\n": is empty`},
		{list: "1,,2", err: `CPU list "1,,2": "" is not a number or a range`},
		{list: "1,", err: `CPU list "1,": "" is not a number or a range`},
		{list: "-1", err: `CPU list "-1": "-1" is not a number or a range`},
		{list: "1-", err: `CPU list "1-": "1-" is not a number or a range`},
		{list: "1-2-3", err: `CPU list "1-2-3": "1-2-3" is not a number or a range`},
		{list: "3-1", err: `CPU list "3-1": "3-1" ends before it begins`},
		{list: "x", err: `CPU list "x": "x" is not a number or a range`},
		{list: "+1", err: `CPU list "+1": "+1" is not a number or a range`},
		{list: "1, 2", err: `CPU list "1, 2": " 2" is not a number or a range`},
		{list: "65536", err: `CPU list "65536": "65536" is larger than 65535`},
		{list: "0-4294967295", err: `CPU list "0-4294967295": "0-4294967295" is larger than 65535`},
		{list: "99999999999999999999", err: `CPU list "99999999999999999999": "99999999999999999999" is larger than 65535`},
		{list: "1,1", err: `CPU list "1,1": 1 is there twice`},
		{list: "0-3,2", err: `CPU list "0-3,2": 2 is there twice`},
		{list: "0-65535,0-65535", err: `CPU list "0-65535,0-65535": has more CPUs than there can be`},
	}
	for _, tt := range tests {
		got, err := ParseCPUList(tt.list)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.list, diff)
		}
		if text := message(err); text != tt.err {
			t.Errorf("%q: error %q, want %q", tt.list, text, tt.err)
		}
	}
}

// message returns the text of an error, or "" for nil.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"0", "0-3,7", "3-1", "", "0-65535", "1,1", "-", "0-4294967295", "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUList(list)
		if err != nil {
			return
		}
		if len(cpus) == 0 || !slices.IsSorted(cpus) || len(slices.Compact(slices.Clone(cpus))) != len(cpus) {
			t.Fatalf("%q: %v is not ascending", list, cpus)
		}
		again, err := ParseCPUList(FormatCPUList(cpus))
		if err != nil || !slices.Equal(again, cpus) {
			t.Fatalf("%q: %v became %v (%v)", list, cpus, again, err)
		}
	})
}
