package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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

// collected returns the records that a snapshot emits.
func collected(t *testing.T, proc string, run func(*Snapshot) error) []any {
	t.Helper()
	var all []any
	s := New(proc, func(_ perfdata.Misc, v perfdata.Value) error {
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
	check(t, run(s))
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
			Protection: syscall.PROT_READ | syscall.PROT_EXEC, Flags: syscall.MAP_PRIVATE, Filename: "/usr/bin/a b (deleted)"},
		perfdata.Mmap2{PID: 70, TID: 70, Start: 0x7f00, Length: 0x10, Protection: syscall.PROT_READ | syscall.PROT_WRITE | syscall.PROT_EXEC, Flags: syscall.MAP_SHARED, Filename: "//anon"},
		perfdata.Mmap2{PID: 70, TID: 70, Start: 0x7ffd1000, Length: 0x2000, Protection: syscall.PROT_READ | syscall.PROT_EXEC, Flags: syscall.MAP_PRIVATE, Filename: "[vdso]"},
	}
	if diff := cmp.Diff(want, collected(t, proc, (*Snapshot).AllProcesses)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	data := collected(t, proc, func(s *Snapshot) error { s.Data = true; return s.Process(70) })
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
	if got := collected(t, proc, (*Snapshot).AllProcesses); len(got) != lines+2 {
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
		got := collected(t, proc, func(s *Snapshot) error { return s.Kernel("0.0-none") })
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	hidden := fakeProc(t, map[string]string{"kallsyms": "0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n"})
	if err := New(hidden, nil).Kernel("0.0-none"); err != ErrHidden {
		t.Errorf("hidden addresses: %v", err)
	}
}

func TestModuleFiles(t *testing.T) {
	dir := fakeProc(t, map[string]string{"modules.dep": "kernel/fs/ext-4.ko.xz: kernel/fs/jbd2.ko\n/extra/own.ko:\n"})
	want := map[string]string{"ext_4": dir + "/kernel/fs/ext-4.ko.xz", "own": "/extra/own.ko"}
	if diff := cmp.Diff(want, ModuleFiles(dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzProc parses hostile text of /proc.
func FuzzProc(f *testing.F) {
	f.Add([]byte("55c4b000-55c50000 r-xp 00002000 fe:1f 247766 /usr/bin/a\n"))
	f.Add([]byte("55c50000-55c60000 r--p 00007000 fe:1f 247766 /usr/bin/a\n"))
	f.Add([]byte("Name:\ta\\\\b\nThreads:\t2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New("/nonexistent", nil)
		var m perfdata.Mmap2
		for mapping := range procfs.Mappings(bytes.NewReader(b), s.buf) {
			if s.describe(mapping, &m) && m.Length == 0 {
				t.Fatal("a mapping of nothing")
			}
		}
		parseStatus(procfs.Status(b))
	})
}
