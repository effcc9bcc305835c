package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestParse(t *testing.T) {
	const text = `# a comment
[stat]
	bpf-counter-events = cycles,instructions   ; another one
	big-num=false
	On
[Report] percent-limit = 5 # in the same line
	sort_order = "a b" c "# no comment"
	long = one \
		two
[colors "x.Y"]
	path = "C:\\\"x\"\t"
	empty =
`
	want := []Value{
		{"stat.bpf-counter-events", "cycles,instructions", "f", 3}, {"stat.big-num", "false", "f", 4}, {"stat.on", "true", "f", 5},
		{"report.percent-limit", "5", "f", 6}, {"report.sort_order", "a b c # no comment", "f", 7}, {"report.long", "one two", "f", 8},
		{"colors.x.Y.path", "C:\\\"x\"\t", "f", 11}, {"colors.x.Y.empty", "", "f", 12},
	}
	got, err := parse(text, "f")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"[stat\nx = 1":           "f:1: the section [stat is not closed by ]",
		"\n[a b]":                "f:2: [a b]: a subsection must be in quotes",
		"[a\x1b]":                "is not a section",
		"x = 1":                  "f:1: x is in no section",
		"[a]\n= 1":               `f:2: "" is not a name`,
		"[a]\nb c = 1":           `f:2: "b c" is not a name`,
		"[a]\n\nx = \"open":      "f:3: a quote is not closed",
		"[a]\nx = \\q":           `f:2: only \, ", n and t may follow`,
		"[a]\nx = 1\n[]":         "f:3: [] is not a section",
		"[a]\nx = one \\\n\n[b":  "f:4: the section",
		"[a]\nx = 1 \\\\\\":      `f:2: only \`,
		"[a \"b]\nx = 1":         "a subsection must be in quotes",
		"[a]\n\"quoted\" = 1\n":  `f:2: "\"quoted\"" is not a name`,
		"\x00\x01\x02[a]\nx = 1": "is not a name",
	} {
		if _, err := parse(text, "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	own := write(t, ".perfconfig", "[stat]\nbpf-counter-events = cycles, instructions\n[stat]\nbig-num = true\nbig-num = false\n")
	env := func(values map[string]string) func(string) string {
		return func(name string) string { return values[name] }
	}
	c, err := Read(env(map[string]string{"HOME": filepath.Dir(own)}))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.List("stat.bpf-counter-events"); !reflect.DeepEqual(got, []string{"cycles", "instructions"}) {
		t.Errorf("%q", got)
	}
	if v, ok := c.Get("stat.big-num"); !ok || v != (Value{"stat.big-num", "false", own, 5}) {
		t.Errorf("%+v", v)
	}
	if got := c.All(); len(got) != 2 || got[0].Key != "stat.big-num" || got[0].Line != 5 || got[1].Key != "stat.bpf-counter-events" {
		t.Errorf("%+v", got)
	}
	if got := c.List("no.such"); len(got) != 0 {
		t.Errorf("%q", got)
	}
	other := write(t, "other", "[report]\nchildren = false\n")
	c, err = Read(env(map[string]string{"HOME": filepath.Dir(own), "PERF_CONFIG": other}))
	if err != nil || len(c.All()) != 1 || c.All()[0].File != other {
		t.Errorf("%+v, %v", c, err)
	}
	for name, broken := range map[string]string{"none": "/nonexistent", "a directory": t.TempDir(), "too large": write(t, "large", strings.Repeat("#\n", mostBytes))} {
		if _, err := Read(env(map[string]string{"PERF_CONFIG": broken})); err == nil || !strings.Contains(err.Error(), broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(env(map[string]string{"PERF_CONFIG": "/dev/null"})); err != nil {
		t.Error(err)
	}
	for _, home := range []string{"", t.TempDir(), os.DevNull} {
		if _, err := Read(env(map[string]string{"HOME": home})); err != nil {
			t.Error(err)
		}
	}
}

// TestReadOfOthers reads a pipe, which would block, and a file of another user.
func TestReadOfOthers(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(file string) func(string) string {
		return func(name string) string { return map[string]string{"PERF_CONFIG": file}[name] }
	}
	if _, err := Read(env(pipe)); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to someone else")
	}
	file := write(t, ".perfconfig", "[stat]\nbig-num = false\n")
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Fatal(err)
	}
	c, err := Read(func(name string) string { return map[string]string{"HOME": filepath.Dir(file)}[name] })
	if err != nil || len(c.All()) != 0 || !strings.Contains(c.Ignored, "belongs to the user 12345") {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[stat]\nbpf-counter-events = \"a\\\"\", b ; c\n[x \"y\"] z\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parse(text, "f")
		lines := strings.Count(text, "\n") + 1
		for _, v := range values {
			if !strings.Contains(v.Key, ".") || v.Line < 1 || v.Line > lines {
				t.Errorf("%+v of %d lines", v, lines)
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error without its line: %v", err)
		}
	})
}
