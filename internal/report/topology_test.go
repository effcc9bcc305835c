package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
)

// TestTopology prints how CPUs and memory are connected. The lines are perf's.
func TestTopology(t *testing.T) {
	var file bytes.Buffer
	w, err := perfdata.NewPipeWriter(&file, perfdata.Options{Events: []*perfdata.Event{{Name: "cycles", IDs: []uint64{1}}}, StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{
		perfdata.FeatureNRCPUs: perfdata.NRCPUs{Available: 2, Online: 2},
		perfdata.FeatureCPUTopology: perfdata.CPUTopology{Packages: []string{"0-1"}, Cores: []string{"0", "1\x1b"}, Dies: []string{"0-1"},
			CPUs: []perfdata.CPUPlace{{}, {Core: 1}}},
		perfdata.FeatureNUMATopology: perfdata.NUMATopology{{Node: 0, MemTotal: 2048, MemFree: 1024, CPUs: "0-1"}},
		perfdata.FeatureCache:        perfdata.Caches{{Level: 1, Type: "Instruction", Size: "32K", CPUs: "0"}, {Level: 3, Type: "Unified", Size: "36608K", CPUs: "0-1"}},
		perfdata.FeatureMemTopology:  perfdata.MemTopology{BlockSize: 128 << 20, Nodes: []perfdata.MemNode{{Size: 68, Blocks: []uint64{0xffffffff00fffffe, 9}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := perfdata.NewPipeReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	header := func(topology bool) string {
		var out strings.Builder
		if err := Header(&out, r, topology); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	_, got, _ := strings.Cut(header(true), "sample_period = 0\n")
	want := `# sibling sockets : 0-1
# sibling dies    : 0-1
# sibling threads : 0
# sibling threads : 1?
# CPU 0: Core ID 0, Die ID 0, Socket ID 0
# CPU 1: Core ID 1, Die ID 0, Socket ID 0
# node0 meminfo  : total = 2048 kB, free = 1024 kB
# node0 cpu list : 0-1
# CPU cache info:
#  L1 Instruction          32K [0]
#  L3 Unified           36608K [0-1]
# memory nodes (nr 1, block size 0x8000000):
#    0 [7G]: 1-23,32-64,67
# ========
#
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if short := header(false); !strings.Contains(short, "# other features: CPU_TOPOLOGY NUMA_TOPOLOGY CACHE MEM_TOPOLOGY\n") {
		t.Errorf("without the topology:\n%s", short)
	}
}

func TestBlockList(t *testing.T) {
	damaged := make([]uint64, 1<<10)
	for i := range damaged {
		damaged[i] = 0x5555555555555555
	}
	blocks, list := blockList(damaged)
	if blocks != 32<<10 || !strings.HasSuffix(list, ",1998,…") {
		t.Errorf("%d blocks, and a list of %d bytes that ends with %.20q", blocks, len(list), list[len(list)-20:])
	}
}
