package host

import (
	"encoding/binary"
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
)

func TestTracing(t *testing.T) {
	tracefs := fstest.MapFS{
		"events/header_page":             {Data: []byte("page")},
		"events/sched/sched_fork/format": {Data: []byte("fork")},
		"events/ftrace/print/format":     {Data: []byte("print")},
		"printk_formats":                 {Data: []byte("formats")},
	}
	got, err := Tracing(tracefs, []string{"sched:sched_fork", "sched:sched_fork", "ftrace:print"})
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	u64 := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	want := append([]byte("\x17\x08\x44tracing0.6\x00\x00\x08"), le.AppendUint32(nil, uint32(os.Getpagesize()))...)
	want = u64(append(want, "header_page\x00"...), "page")
	want = u64(append(want, "header_event\x00"...), "")
	want = u64(le.AppendUint32(want, 1), "print")
	want = append(le.AppendUint32(want, 1), "sched\x00"...)
	want = u64(le.AppendUint32(want, 1), "fork")
	want = append(le.AppendUint32(le.AppendUint32(want, 0), 7), "formats"...)
	want = u64(want, "")
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMachine(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	cpu := "sys/devices/system/cpu/"
	got := Machine(fstest.MapFS{
		"proc/sys/kernel/hostname":                   file("box\n"),
		"proc/sys/kernel/osrelease":                  file("6.1.0\n"),
		"proc/cpuinfo":                               file("processor\t: 0\nvendor_id\t: Maker\ncpu family\t: 6\nmodel\t: 69\nmodel name\t: A  CPU\nstepping\t: 1\n\nprocessor\t: 1\n"),
		"proc/meminfo":                               file("MemTotal:  2048 kB\n"),
		cpu + "online":                               file("0\n"),
		cpu + "present":                              file("0-1\n"),
		cpu + "cpu0/topology/core_siblings_list":     file("0\n"),
		cpu + "cpu0/topology/thread_siblings_list":   file("0\n"),
		cpu + "cpu0/topology/physical_package_id":    file("3\n"),
		cpu + "cpu0/cache/index0/level":              file("1\n"),
		cpu + "cpu0/cache/index0/type":               file("Data\n"),
		"sys/devices/system/node/online":             file("0\n"),
		"sys/devices/system/node/node0/meminfo":      file("Node 0 MemTotal:  1024 kB\nNode 0 MemFree: 512 kB\n"),
		"sys/devices/system/node/node0/cpulist":      file("0-1\n"),
		"sys/devices/system/node/node0/memory65/x":   file(""),
		"sys/devices/system/memory/block_size_bytes": file("8000000\n"),
		devices + "/cpu/type":                        file("4\n"),
		devices + "/cpu/caps/branches":               file("32\n"),
	})
	want := Features{
		perfdata.FeatureArch: perfdata.Text(uname()), perfdata.FeatureHostname: perfdata.Text("box"), perfdata.FeatureOSRelease: perfdata.Text("6.1.0"),
		perfdata.FeatureCPUDesc: perfdata.Text("A CPU"), perfdata.FeatureCPUID: perfdata.Text("Maker,6,69,1"),
		perfdata.FeatureNRCPUs: perfdata.NRCPUs{Available: 2, Online: 1}, perfdata.FeatureTotalMem: perfdata.TotalMem(2048),
		perfdata.FeatureCPUTopology:  perfdata.CPUTopology{Packages: []string{"0"}, Cores: []string{"0"}, CPUs: []perfdata.CPUPlace{{Socket: 3}, {}}},
		perfdata.FeatureNUMATopology: perfdata.NUMATopology{{MemTotal: 1024, MemFree: 512, CPUs: "0-1"}},
		perfdata.FeatureCache:        perfdata.Caches{{Level: 1, Type: "Data"}},
		perfdata.FeaturePMUMappings:  perfdata.PMUMappings{{Type: 4, Name: "cpu"}},
		perfdata.FeatureCPUPMUCaps:   perfdata.CPUPMUCaps{{Name: "branches", Value: "32"}},
		perfdata.FeatureMemTopology:  perfdata.MemTopology{BlockSize: 0x8000000, Nodes: []perfdata.MemNode{{Size: 66, Blocks: []uint64{0, 2}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
