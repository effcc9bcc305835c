package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestAnnotateIntel annotates a function in both syntaxes of x86 instructions.
func TestAnnotateIntel(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only x86 has several syntaxes")
	}
	require.Root(t)
	require.Tools(t, "gcc")
	dir := t.TempDir()
	source, program, recording := filepath.Join(dir, "a.c"), filepath.Join(dir, "a"), filepath.Join(dir, "perf.data")
	const code = `int main(void) { for (int i = 100000000; i > 0; i--) __asm__ volatile("mov %%rsp,%%rax" ::: "rax"); return 0; }`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	if got := run(t, bperf("record", "-q", "-e", "cpu-clock:u", "-o", recording, program)); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, tt := range []struct{ style, want string }{{"att", "\tmov %rsp,%rax\n"}, {"intel", "\tmov rax,rsp\n"}} {
		if got := run(t, bperf("annotate", "-i", recording, "-M", tt.style, "main")); !strings.Contains(got.stdout, tt.want) {
			t.Errorf("-M %s: there is no %q in\n%s%s", tt.style, tt.want, got.stdout, got.stderr)
		}
	}
	ofLoop := regexp.MustCompile(`\t\t(mov %rsp,%rax|sub \$0x1,%e\w+|jne .*)\n`) // the CPU decides which of them are sampled
	if got := run(t, bperf("script", "-i", recording, "-F", "ip,disasm")); !ofLoop.MatchString(got.stdout) {
		t.Errorf("script -F disasm: %.2000s%s", got.stdout, got.stderr)
	}
}
