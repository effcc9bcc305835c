package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestAnnotateSourceOfOthers expects no source lines that the owners of the program, its debugging information and the recording may not
// read, because these owners choose the source file.
func TestAnnotateSourceOfOthers(t *testing.T) {
	require.Root(t)
	require.Tools(t, "gcc", "objcopy")
	const nobody, text = 65534, "what only root knows"
	dir, err := os.MkdirTemp("", "") // t.TempDir's parent cannot be searched by everybody
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, debug, recording := filepath.Join(dir, "program"), filepath.Join(dir, "program.debug"), filepath.Join(dir, "perf.data")
	sources := filepath.Join(dir, "sources")
	source, link := filepath.Join(sources, "secret.c"), filepath.Join(dir, "link.c")
	code := filepath.Join(t.TempDir(), "code.c")
	for _, err := range []error{
		os.Chmod(dir, 0o755),
		os.Mkdir(sources, 0o755),
		os.WriteFile(source, []byte(strings.Repeat(text+"\n", 3)), 0o600),
		os.Symlink(source, link),
		os.WriteFile(code, []byte("#line 1 \""+link+"\"\nint main(void) { for (volatile long i = 0; i < 100000000; i++); }\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"gcc", "-g", "-Wl,--build-id", "-o", program, code},
		{"objcopy", "--only-keep-debug", program, debug},
		{"objcopy", "--strip-debug", "--add-gnu-debuglink=" + debug, program},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v, %s", args, err, out)
		}
	}
	if got := run(t, bperf("record", "-q", "-e", "cpu-clock", "-o", recording, program)); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, tt := range []struct {
		name           string
		owners         [3]int // of the program, its debugging information and the recording
		owner          int    // of the source
		mode, searched os.FileMode
		want           string
	}{
		{"all are root's", [3]int{0, 0, 0}, 0, 0o600, 0o700, ""},
		{"the program", [3]int{nobody, 0, 0}, 0, 0o600, 0o755, "permission denied"},
		{"the debugging information", [3]int{0, nobody, 0}, 0, 0o640, 0o755, "permission denied"},
		{"the recording", [3]int{0, 0, nobody}, 0, 0o600, 0o755, "permission denied"},
		{"two users", [3]int{nobody, nobody - 1, 0}, nobody, 0o600, 0o755, "permission denied"},
		{"a directory", [3]int{nobody, 0, 0}, 0, 0o644, 0o700, "permission denied"},
		{"of the same user", [3]int{nobody, nobody, nobody}, nobody, 0o600, 0o755, ""},
		{"everybody may read it", [3]int{nobody, nobody - 1, 0}, 0, 0o644, 0o755, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i, file := range []string{program, debug, recording} {
				if err := os.Chown(file, tt.owners[i], tt.owners[i]); err != nil {
					t.Fatal(err)
				}
			}
			for _, err := range []error{os.Chown(source, tt.owner, 0), os.Chmod(source, tt.mode), os.Chmod(sources, tt.searched)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			report := annotated(t, "-i", recording, "main")
			shown := run(t, bperf("annotate", "-i", recording, "-l", "main")).stdout
			f := report.Functions[0]
			if len(f.Lines) == 0 || (f.Lines[0].Text == text) != (tt.want == "") || strings.Contains(shown, text) != (tt.want == "") {
				t.Errorf("lines %+v, in text:\n%s", f.Lines, shown)
			}
			if (f.NoSource == "") != (tt.want == "") || !strings.Contains(f.NoSource, tt.want) || !strings.Contains(shown, f.NoSource) {
				t.Errorf("it says %q, want %q; in text:\n%s", f.NoSource, tt.want, shown)
			}
		})
	}
}
