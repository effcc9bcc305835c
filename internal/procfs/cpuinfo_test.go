package procfs

import (
	"testing"
	"testing/fstest"
)

func TestCPUInfoID(t *testing.T) {
	root := fstest.MapFS{
		"proc/cpuinfo": {Data: []byte("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 142\nstepping\t: 10\n\n" +
			"processor\t: 1\nmodel\t\t: 1\n")},
		"sys/devices/system/cpu/cpu1/regs/identification/midr_el1": {Data: []byte("0x00000000410fd0c0\n")},
	}
	info := ReadCPUInfo(Proc(root))
	if got, want := info.ID(Sys(root), 1), "GenuineIntel,6,142,10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for cpu, want := range map[int]string{0: "", 1: "0x00000000410fd0c0"} {
		if got := (CPUInfo{}).ID(Sys(root), cpu); got != want {
			t.Errorf("CPU %d of arm64: got %q, want %q", cpu, got, want)
		}
	}
	if info := ReadCPUInfo(fstest.MapFS{}); len(info) != 0 {
		t.Errorf("got %v without /proc/cpuinfo", info)
	}
}
