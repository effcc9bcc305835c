package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestPprofHasTheCode records a Go program at a fixed address and a C program that is loaded anywhere. pprof must find their instructions and lines.
func TestPprofHasTheCode(t *testing.T) {
	require.Root(t)
	require.Tools(t, "go", "gcc", "objdump")
	const inC = "__attribute__((noinline)) long work(long n) {\n\tvolatile long s = 0;\n\tfor (long i = 0; i < n; i++)\n\t\ts += i * i;\n\treturn s;\n}\n\n" +
		"int main() {\n\tfor (int i = 0; i < 300; i++)\n\t\twork(1000000);\n}\n"
	for _, tt := range []struct {
		name, source, text, function string
		build                        []string
	}{
		{"Go", "main.go", hot, "main.work", []string{"go", "build", "-pgo=off", "-o", "program", "main.go"}},
		{"C", "main.c", inC, "work", []string{"gcc", "-g", "-O1", "-fPIE", "-pie", "-fno-omit-frame-pointer", "-o", "program", "main.c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			command := func(cmd *exec.Cmd) string {
				t.Helper()
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), append(cmd.Env, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "PPROF_TMPDIR="+dir)...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", cmd, err, out)
				}
				return string(out)
			}
			if err := os.WriteFile(filepath.Join(dir, tt.source), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			command(exec.Command(tt.build[0], tt.build[1:]...))
			command(bperf("record", "-g", "-e", "cpu-clock", "-F", "1000", "-o", "perf.data", "--", "./program"))
			command(bperf("report", "--format", "pprof", "-o", "report.pb.gz"))
			command(bperf("profile", "-q", "-e", "cpu-clock", "-F", "1000", "--format", "pprof", "-o", "profile.pb.gz", "--", "./program"))
			for _, file := range []string{"report.pb.gz", "profile.pb.gz"} {
				for view, want := range map[string]string{"-raw": "PeriodType: cpu nanoseconds\nPeriod: 1000000\n", "-top": tt.function, "-list": "main.",
					"-disasm": "ROUTINE ", "-weblist": "class=asm"} {
					args := []string{"tool", "pprof", view, file}
					if view != "-raw" && view != "-top" {
						args = []string{"tool", "pprof", "-output", "out", view, tt.function, file}
					}
					out := command(exec.Command("go", args...))
					if text, err := os.ReadFile(filepath.Join(dir, "out")); err == nil {
						out += string(text)
						_ = os.Remove(filepath.Join(dir, "out"))
					}
					if !strings.Contains(out, want) {
						t.Errorf("%s of %s has no %q:\n%.2000s", view, file, want, out)
					}
				}
			}
		})
	}
}
