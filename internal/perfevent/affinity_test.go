package perfevent

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMask(t *testing.T) {
	set := func(cpus ...int) (s unix.CPUSet) {
		for _, cpu := range cpus {
			s.Set(cpu)
		}
		return s
	}
	for _, tt := range []struct {
		mask string
		want unix.CPUSet
		ok   bool
	}{
		{"3", set(0, 1), true},
		{"80000001", set(0, 31), true},
		{"1,00000000,0000000a", set(1, 3, 64), true},
		{"00000000", set(), false},
		{"", set(), false},
		{"x", set(), false},
		{"1ffffffff", set(), false},
	} {
		var got unix.CPUSet
		if ok := parseMask(&got, tt.mask); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%q: %v, %v", tt.mask, got, ok)
		}
	}
}
