package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestBuildIDList(t *testing.T) {
	require.NoKernel(t)
	elf := filepath.Join(t.TempDir(), "elf")
	if err := os.Rename(program.Program{Body: program.Touch, Times: 1}.Write(t), elf); err != nil {
		t.Fatal(err)
	}
	const (
		loader = "7ebc65e52f2bbea498b4040fa92f7238377aaba9 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n"
		kernel = "e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1 [kernel.kallsyms]\n"
		vdso   = "a599807156a2a62fe956a82e388aeeabc874119c [vdso]\n"
	)
	blank := strings.Repeat(" ", 41)
	for _, tt := range []struct {
		args   []string
		out    string
		errors string
		status int
	}{
		{args: []string{"-f", "-i", filepath.Join(recordings, "callchain.data")}, out: loader + kernel + vdso},
		{args: []string{"-v", "-H", "-i", filepath.Join(recordings, "callchain.data")},
			out: loader + blank + "/usr/lib/x86_64-linux-gnu/libc.so.6\n" + kernel},
		{args: []string{"-i", filepath.Join(recordings, "buildid.data")}, out: loader}, // from records of mappings
		{args: []string{"-i", filepath.Join(recordings, "pipe.data")},
			out: blank + "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n" + blank + "[kernel.kallsyms]\n"},
		{args: []string{"-i", filepath.Join(recordings, "stat.data")}},
		{args: []string{"-i", elf}, errors: elf + " has no build ID", status: statusFailed},
		{args: []string{"-i", "/nonexistent"}, errors: "make a recording with bperf record, or name one with -i", status: statusFailed},
	} {
		got := run(t, bperf(append([]string{"buildid-list"}, tt.args...)...))
		if got.status != tt.status || got.stdout != tt.out || !strings.Contains(got.stderr, tt.errors) || tt.errors == "" && got.stderr != "" {
			t.Errorf("%v: %+v, want\n%s", tt.args, got, tt.out)
		}
	}
}

// TestBuildIDListDamaged checks that the build IDs before a damaged one are listed, and that the error is reported.
func TestBuildIDListDamaged(t *testing.T) {
	require.NoKernel(t)
	file, err := os.ReadFile(filepath.Join(recordings, "callchain.data"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(file, []byte("[vdso]")) - 36 // size of the record's head: header, PID and build ID
	if at < 0 {
		t.Fatal("the recording has no [vdso]")
	}
	file[at+6], file[at+7] = 2, 0 // its size
	broken := filepath.Join(t.TempDir(), "broken.data")
	if err := os.WriteFile(broken, file, 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, bperf("buildid-list", "-i", broken))
	before := strings.Contains(got.stdout, "ld-linux") && !strings.Contains(got.stdout, "vdso")
	if got.status != statusFailed || !before || !strings.Contains(got.stderr, "BUILD_ID") {
		t.Errorf("%+v", got)
	}
}

func TestBuildIDListKernel(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/notes"); err != nil {
		t.Skip(err)
	}
	id := run(t, bperf("buildid-list", "-k"))
	if id.status != 0 || !regexp.MustCompile("^[0-9a-f]{40}\n$").MatchString(id.stdout) {
		t.Errorf("-k: %+v", id)
	}
	require.Root(t)
	maps := run(t, bperf("buildid-list", "-m"))
	first, _, _ := strings.Cut(maps.stdout, "\n")
	want := "^" + strings.TrimSpace(id.stdout) + ` f[0-9a-f]{15} f[0-9a-f]{15} \[kernel\.kallsyms\]$`
	if maps.status != 0 || !regexp.MustCompile(want).MatchString(first) {
		t.Errorf("-m: %+v, want %s first", maps, want)
	}
}

func TestBuildIDListBesidePerf(t *testing.T) {
	perf := exec.Command(require.NewestPerf(t))
	same := func(args ...string) {
		args = append([]string{"buildid-list"}, args...)
		if got, want := string(output(t, bperf(), args...)), string(output(t, perf, args...)); got != want || want == "" {
			t.Errorf("%v: printed\n%swant\n%s", args, got, want)
		}
	}
	for _, name := range []string{"bpf", "buildid", "callchain", "group", "regs", "tracepoint", "zstd"} {
		file, err := filepath.Abs(filepath.Join(recordings, name+".data"))
		if err != nil {
			t.Fatal(err)
		}
		same("-f", "-i", file)
		same("-f", "-H", "-i", file)
	}
	same("-k")
	same("-i", "/bin/sh")
}
