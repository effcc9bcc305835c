package userprog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/require"
)

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{
		"a.o":                  {File: "a.o"},
		"a.o:f":                {File: "a.o", Name: "f"},
		"dir:x/a.o":            {File: "dir:x/a.o"},
		"C:/a.o:_f1":           {File: "C:/a.o", Name: "_f1"},
		"pinned:/sys/fs/bpf/a": {Pinned: "/sys/fs/bpf/a"},
		"id:17":                {ID: 17},
		"./id.o":               {File: "./id.o"},
		"a.o:1f":               {File: "a.o:1f"},
		"a.o:":                 {File: "a.o:"},
	} {
		got, err := parseSource(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"pinned:": "a path in bpffs is missing",
		"id:":     "give the number of a loaded program",
		"id:0":    "give the number of a loaded program",
		"id:-1":   "give the number of a loaded program",
		"x/a.c:f": "clang -O2 -g -target bpf -D__TARGET_ARCH_" + targetArch[runtime.GOARCH] + " -c x/a.c -o x/a.o",
	} {
		if _, err := parseSource(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	object := onsample.Write(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text.o")
	if err := os.WriteFile(text, []byte("not an ELF file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		source string
		set    string
		want   string
	}{
		{filepath.Join(dir, "none.o"), "", "no such file"},
		{text, "", "read the BPF object " + text},
		{dir, "", "is not a regular file"},
		{object, "", "has 5 programs of type perf_event: after_exec, every_nth, output, refused, submit. Say which, as " + object + ":NAME"},
		{object + ":count_execs", "", "no program of type perf_event with the name count_execs. It has after_exec, every_nth, output, refused, submit"},
		{object + ":every_nth", "modulos=1", "there is no global variable modulos. There are "},
		{object + ":every_nth", "modulus=4294967296", "modulus=4294967296: it is an unsigned number of 32 bits"},
		{object + ":every_nth", "modulus=-1", "it is an unsigned number of 32 bits"},
		{object + ":every_nth", "least=32768", "it is a signed number of 16 bits"},
		{object + ":every_nth", "drop_all=2", "it is a boolean: give true or false"},
		{object + ":every_nth", "parity=BOTH", "it is one of EVEN, ODD, or a number"},
		{object + ":every_nth", "label=12345678", "a string of 8 bytes, and there is room for 7 and a 0"},
	} {
		var assignments []Assignment
		if tt.set != "" {
			a, err := ParseAssignment(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			assignments = append(assignments, a)
		}
		if _, err := Read([]string{tt.source}, assignments, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: error %v, want %q", tt.source, tt.set, err, tt.want)
		}
	}
	for _, text := range []string{"", "a", "=1", "a-b=1", "1a=2"} {
		if a, err := ParseAssignment(text); err == nil {
			t.Errorf("%q is %+v", text, a)
		}
	}
}

// TestReadPipe reads a pipe without a writer, which would block.
func TestReadPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := Read([]string{fmt.Sprintf("/proc/self/fd/%d", r.Fd())}, nil, false); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

func TestSet(t *testing.T) {
	p, err := Read([]string{onsample.Write(t) + ":every_nth"}, []Assignment{
		{"modulus", "0x10"}, {"least", "-2"}, {"drop_all", "true"}, {"parity", "ODD"}, {"label", "abc"}, {"seen", "7"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		"modulus": number(16, 4), "least": number(0xfffe, 2), "drop_all": {1}, "parity": number(1, 4), "label": []byte("abc\x00\x00\x00\x00\x00"), "seen": number(7, 8),
	} {
		if got := p.objects[0].spec.Variables[name].Value; !bytes.Equal(got, want) {
			t.Errorf("%s is %x, want %x", name, got, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		spec ebpf.ProgramSpec
		want string
	}{
		{ebpf.ProgramSpec{Type: ebpf.PerfEvent, SectionName: "perf_event"}, ""},
		{ebpf.ProgramSpec{Type: ebpf.TracePoint, SectionName: "tracepoint/sched/sched_switch", AttachTo: "sched/sched_switch"}, ""},
		{ebpf.ProgramSpec{Type: ebpf.TracePoint, SectionName: "tracepoint"}, "does not say where"},
		{ebpf.ProgramSpec{Type: ebpf.Kprobe, SectionName: "kprobe/do_exit", AttachTo: "do_exit"}, ""},
		{ebpf.ProgramSpec{Type: ebpf.Kprobe, SectionName: "uprobe.s//bin/sh:main", AttachTo: "/bin/sh:main"}, ""},
		{ebpf.ProgramSpec{Type: ebpf.Kprobe, SectionName: "uretprobe//bin/sh", AttachTo: "/bin/sh"}, "its section is uretprobe/PATH:SYMBOL"},
		{ebpf.ProgramSpec{Type: ebpf.Kprobe, SectionName: "kprobe.multi/do_*", AttachTo: "do_*"}, "of no kind that bperf attaches"},
		{ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit, SectionName: "fexit/do_exit", AttachTo: "do_exit"}, ""},
		{ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachModifyReturn, SectionName: "fmod_ret/do_exit", AttachTo: "do_exit"}, "neither tp_btf nor"},
		{ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, SectionName: "iter/task", AttachTo: "task"}, "neither tp_btf nor"},
		{ebpf.ProgramSpec{Type: ebpf.XDP, SectionName: "xdp"}, "it is not for tracing"},
		{ebpf.ProgramSpec{SectionName: "my_section"}, "of no type that bperf knows"},
	} {
		got := refusal(&tt.spec)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.spec.SectionName, got, tt.want)
		}
	}
}

// TestFindExecutable finds programs in $PATH and libraries in the library directories.
func TestFindExecutable(t *testing.T) {
	dir, libraries := t.TempDir(), t.TempDir()
	for _, path := range []string{dir + "/server", libraries + "/libserver.so", libraries + "/libserver.so.1"} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("LD_LIBRARY_PATH", dir+":"+libraries)
	for name, want := range map[string]string{
		"server": dir + "/server", "./server": "./server", "/bin/none": "/bin/none", "libserver.so": libraries + "/libserver.so", "libserver.so.1": libraries + "/libserver.so.1",
		"none": "", "none.so": "",
	} {
		got, err := findExecutable(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestNotThere attaches programs to targets that no kernel has.
func TestNotThere(t *testing.T) {
	require.Root(t)
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	for section, tt := range map[string]struct {
		spec ebpf.ProgramSpec
		want string
	}{
		"raw_tp/no_such":             {ebpf.ProgramSpec{Type: ebpf.RawTracepoint, AttachTo: "no_such"}, "attach enter (section \"raw_tp/no_such\"): this kernel has no such tracepoint"},
		"tracepoint/no/such":         {ebpf.ProgramSpec{Type: ebpf.TracePoint, AttachTo: "no/such"}, "this kernel has no such tracepoint, or tracefs is not mounted"},
		"kprobe/no_such_function":    {ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachTo: "no_such_function"}, "this kernel has no such function, or no kprobes"},
		"kretprobe/no_such_function": {ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachTo: "no_such_function"}, "this kernel has no such function, or no kprobes"},
		"tp_btf/no_such": {ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "no_such"},
			"load file.o: program enter (section \"tp_btf/no_such\"): this kernel has no function or tracepoint with that name"},
		"fentry/no_such_function": {ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "no_such_function"},
			"this kernel has no function or tracepoint with that name"},
		"uprobe//nonexistent:main": {ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachTo: "/nonexistent:main"}, "/nonexistent"},
	} {
		p := tt.spec
		p.Name, p.SectionName, p.Instructions, p.License = "enter", section, code, "GPL"
		o := &object{file: "file.o", spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"enter": &p}}}
		err := o.load(false)
		if err == nil {
			err = o.attach()
		}
		o.detach()
		o.close()
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "MEMLOCK") {
			t.Errorf("%s: %v; want %q", section, err, tt.want)
		}
	}
}

// TestNotAllowed checks the error for a program that this process may not load.
func TestNotAllowed(t *testing.T) {
	o := &object{file: "file.o", spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"enter": {SectionName: "fentry/vfs_read"}}}}
	err := o.notLoaded(fmt.Errorf("program enter: load program: %w (MEMLOCK may be too low)", syscall.EPERM), false)
	want := `program enter (section "fentry/vfs_read"): operation not permitted. ` + kernel.Remedy("Run as root") + `; "bperf doctor" shows which kinds of programs the kernel allows`
	if err.Error() != want || !errors.Is(err, syscall.EPERM) {
		t.Errorf("%v, want %s", err, want)
	}
}
