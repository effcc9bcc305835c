package record

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// fakeProc writes files of a /proc.
func fakeProc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// collected are the records that a synthesizer tells.
func collected(t *testing.T, proc string, tell func(*synthesizer) error) []any {
	t.Helper()
	var all []any
	s := newSynthesizer(proc, func(_ perfdata.Misc, v perfdata.Value) error {
		switch v := v.(type) {
		case *perfdata.Mmap2:
			all = append(all, *v)
		case *perfdata.Mmap:
			all = append(all, *v)
		case *perfdata.Comm:
			all = append(all, *v)
		case *perfdata.Fork:
			all = append(all, *v)
		}
		return nil
	})
	check(t, tell(s))
	return all
}

func TestSynthesizeProcesses(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"2/status":        "Name:\tkworker/0:0-events_unbound\nPPid:\t0\nThreads:\t1\n",
		"2/maps":          "",
		"70/status":       "Name:\ta\\\\b\\nc\nPPid:\t1\nVmSize:\t 10 kB\nThreads:\t2\n",
		"70/task/70/dir":  "",
		"70/task/71/comm": "second\n",
		"70/maps": "55c4b000-55c50000 r-xp 00002000 fe:1f 247766                     /usr/bin/a b (deleted)\n" +
			"55c50000-55c51000 rw-p 00002000 fe:1f 247766                     /usr/bin/a b\n" +
			"7f00-7f10 rwxs 00000000 00:00 0 \n" +
			"7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]\n" +
			"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n" +
			"broken line\n",
		"80/status": "Name:\tgone\n", // it has no threads any more
		"meminfo":   "MemTotal: 1 kB\n",
	})
	want := []any{
		perfdata.Fork{PID: 2, TID: 2, Exec: true},
		perfdata.Comm{PID: 2, TID: 2, Comm: "kworker/0:0-eve"},
		perfdata.Fork{PID: 70, TID: 70, ParentPID: 1, ParentTID: 1, Exec: true},
		perfdata.Comm{PID: 70, TID: 70, Comm: "a\\b\nc"},
		perfdata.Fork{PID: 70, TID: 71, ParentPID: 70, ParentTID: 70, Exec: true},
		perfdata.Comm{PID: 70, TID: 71, Comm: "second"},
		perfdata.Mmap2{PID: 70, TID: 70, Start: 0x55c4b000, Length: 0x5000, Offset: 0x2000, Major: 0xfe, Minor: 0x1f, Inode: 247766,
			Protection: protRead | protExec, Flags: mapPrivate, Filename: "/usr/bin/a b (deleted)"},
		perfdata.Mmap2{PID: 70, TID: 70, Start: 0x7f00, Length: 0x10, Protection: protRead | protWrite | protExec, Flags: mapShared, Filename: "//anon"},
		perfdata.Mmap2{PID: 70, TID: 70, Start: 0x7ffd1000, Length: 0x2000, Protection: protRead | protExec, Flags: mapPrivate, Filename: "[vdso]"},
	}
	if diff := cmp.Diff(want, collected(t, proc, (*synthesizer).all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	data := collected(t, proc, func(s *synthesizer) error { s.data = true; return s.process(70) })
	if len(data) != len(want)-2+1 {
		t.Errorf("%d records with data, want one more than %d", len(data), len(want)-2)
	}
}

// TestLongMaps reads more lines than the buffer has room for.
func TestLongMaps(t *testing.T) {
	var maps bytes.Buffer
	const lines = 5000
	for i := range lines {
		maps.WriteString("7f0000000000-7f0000001000 r-xp 00000000 fe:00 1 /lib/" + string(rune('a'+i%26)) + "\n")
	}
	proc := fakeProc(t, map[string]string{"5/status": "Name:\tx\nVmSize:\t1 kB\nThreads:\t1\n", "5/maps": maps.String()})
	if got := collected(t, proc, (*synthesizer).all); len(got) != lines+2 {
		t.Errorf("%d records, want %d", len(got), lines+2)
	}
}

func TestSynthesizeKernel(t *testing.T) {
	const symbols = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\nffffffff81000000 T _text\n"
	modules := "ext_4 900 1 - Live 0xffffffffc0100000\nlost 4096 0 - Live 0xffffffffc0200000\nhidden 4096 0 - Live 0x0000000000000000\n"
	kernel := func(end uint64) perfdata.Mmap {
		return perfdata.Mmap{PID: -1, Start: 0xffffffff81000000, Length: end - 0xffffffff81000000, Offset: 0xffffffff81000000,
			Filename: "[kernel.kallsyms]_text"}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []any
	}{
		"with iomem": {map[string]string{"kallsyms": symbols, "iomem": "00100000-7fffffff : System RAM\n  01000000-020000c7 : Kernel code\n"},
			[]any{kernel(0xffffffff820000c8)}},
		"without iomem": {map[string]string{"kallsyms": symbols + "ffffffff82000000 T _etext\n", "iomem": "00000000-00000000 : Kernel code\n"},
			[]any{kernel(0xffffffff82000000)}},
		"with modules": {map[string]string{"kallsyms": symbols + "ffffffff82000000 T _etext\n", "modules": modules}, []any{kernel(0xffffffff82000000),
			perfdata.Mmap{PID: -1, Start: 0xffffffffc0100000, Length: 900, Filename: "[ext_4]"},
			perfdata.Mmap{PID: -1, Start: 0xffffffffc0200000, Length: 4096, Filename: "[lost]"}}},
	} {
		proc := fakeProc(t, tt.files)
		got := collected(t, proc, func(s *synthesizer) error { return s.kernel("0.0-none") })
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	hidden := fakeProc(t, map[string]string{"kallsyms": "0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n"})
	if err := newSynthesizer(hidden, nil).kernel("0.0-none"); err != errHidden {
		t.Errorf("hidden addresses: %v", err)
	}
}

func TestModuleFiles(t *testing.T) {
	dir := fakeProc(t, map[string]string{"modules.dep": "kernel/fs/ext-4.ko.xz: kernel/fs/jbd2.ko\n/extra/own.ko:\n"})
	want := map[string]string{"ext_4": dir + "/kernel/fs/ext-4.ko.xz", "own": "/extra/own.ko"}
	if diff := cmp.Diff(want, moduleFiles(dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTracing(t *testing.T) {
	tracefs := fstest.MapFS{
		"events/header_page":             {Data: []byte("page")},
		"events/sched/sched_fork/format": {Data: []byte("fork")},
		"events/ftrace/print/format":     {Data: []byte("print")},
		"printk_formats":                 {Data: []byte("formats")},
	}
	got, err := tracing(tracefs, []string{"sched:sched_fork", "sched:sched_fork", "ftrace:print"})
	check(t, err)
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
	got := machine(fstest.MapFS{
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
	want := features{
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

func TestNoteBuildID(t *testing.T) {
	le := binary.LittleEndian
	note := func(kind uint32, name, content string) []byte {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, uint32(len(name))), uint32(len(content))), kind)
		b = append(b, name...)
		b = append(b, make([]byte, -len(name)&3)...)
		b = append(b, content...)
		return append(b, make([]byte, -len(content)&3)...)
	}
	other := note(1, "Linux\x00", "12345")
	for name, tt := range map[string]struct {
		notes []byte
		want  string
	}{
		"first":    {note(3, "GNU\x00", "identity"), "identity"},
		"second":   {append(bytes.Clone(other), note(3, "GNU\x00", "identity")...), "identity"},
		"too long": {note(3, "GNU\x00", "01234567890123456789more"), "01234567890123456789"},
		"none":     {other, ""},
		"cut":      {note(3, "GNU\x00", "identity")[:20], ""},
		"empty":    {nil, ""},
	} {
		if got := string(noteBuildID(tt.notes, le)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// FuzzRecords looks at hostile records of a ring, in two parts.
func FuzzRecords(f *testing.F) {
	sample := binary.NativeEndian.AppendUint64(nil, 32<<48|uint64(perfdata.RecordSample))
	sample = append(sample, make([]byte, 24)...)
	f.Add(sample, uint8(16))
	f.Add(append(binary.NativeEndian.AppendUint64(nil, 80<<48|uint64(perfdata.RecordMmap2)), make([]byte, 72)...), uint8(8))
	f.Add([]byte{1, 2, 3}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		tally := newTally(1<<16|7, func(name []byte, _ int32) {
			if len(name) > len(b) {
				t.Fatalf("a name of %d bytes", len(name))
			}
		})
		n := min(int(at)&^7, len(b))
		if err := tally.add(b[:n], b[n:]); err == nil && tally.samples > uint64(len(b)/8) {
			t.Fatalf("%d samples in %d bytes", tally.samples, len(b))
		}
	})
}

// FuzzProc parses hostile text of /proc, and ELF notes.
func FuzzProc(f *testing.F) {
	f.Add([]byte("55c4b000-55c50000 r-xp 00002000 fe:1f 247766 /usr/bin/a\n"))
	f.Add([]byte("55c50000-55c60000 r--p 00007000 fe:1f 247766 /usr/bin/a\n"))
	f.Add([]byte("Name:\ta\\\\b\nThreads:\t2\n"))
	f.Add([]byte("\x04\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSynthesizer("/nonexistent", nil)
		var m perfdata.Mmap2
		for mapping := range procfs.Mappings(bytes.NewReader(b), s.buf) {
			if s.describe(mapping, &m) && m.Length == 0 {
				t.Fatal("a mapping of nothing")
			}
		}
		parseStatus(procfs.Status(b))
		if id := noteBuildID(b, binary.LittleEndian); len(id) > 20 {
			t.Fatalf("a build ID of %d bytes", len(id))
		}
	})
}
