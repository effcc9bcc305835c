package report

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
)

// goTool runs a tool of the Go toolchain that runs the tests.
func goTool(t *testing.T, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the go command builds the tool first
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool"}, arguments...)...)
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go tool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func pprofFile(t *testing.T, p *profile.Profile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.pb.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := WritePprof(file, p, &Options{}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGoToolPprof(t *testing.T) {
	out := goTool(t, "pprof", "-symbolize=none", "-top", pprofFile(t, mixed(profile.Comm|profile.Line, 1)))
	for _, want := range []string{"Type: cpu\n", "33.33% 33.33%    19500ns 92.86%  main.serve", "main.small (inline)", "bpf_prog_6deef7357e7b4530_count"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

// hot is a program with a call that the compiler inlines only if a profile says that it is hot.
const hot = `package main

var sum int

func work(n int) {
	for i := 0; i < n; i++ {
		switch i % 7 {
		case 0: sum += i * 3
		case 1: sum -= i
		case 2: sum ^= i << 3
		case 3: sum += sum >> 2
		case 4: sum *= 5
		case 5: sum += i * i
		default: sum -= i*7 + sum%13
		}
		if sum > 1<<40 { sum = sum%1000 + i*i - 3*i + 9 }
	}
}

func main() {
	for {
		work(1000)
	}
}
`

// TestPGO gives a profile to Go's compiler. The compiler must then inline the call that is hot in the profile.
func TestPGO(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(hot), 0o644); err != nil {
		t.Fatal(err)
	}
	line := func(text string) uint32 { return uint32(1 + strings.Count(hot[:strings.Index(hot, text)], "\n")) }
	p := profile.New(profile.Line)
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}}
	module := p.Modules.ID(profile.Module{Name: p.Strings.ID("hot"), Path: p.Strings.ID("/bin/hot")})
	frame := func(name, at, start string) profile.FrameID {
		file := p.Strings.ID("main.go")
		f := p.Functions.ID(profile.Function{Name: p.Strings.ID(name), Module: module, Start: uint64(line(start)), File: file, StartLine: line(start)})
		return p.Frame(profile.Frame{Function: f, Module: module, File: file, Line: line(at), Kind: profile.User})
	}
	work, main := frame("main.work", "case 5", "func work"), frame("main.main", "work(1000)", "func main")
	p.Add(profile.Sample{Leaf: work, Stack: p.Stacks.ID([]profile.FrameID{work, main}), Count: 1000, Value: 1e9})

	prepared := filepath.Join(dir, "prepared")
	goTool(t, "preprofile", "-i", pprofFile(t, p), "-o", prepared)
	const inlined = "inlining call to work"
	if out := goTool(t, "compile", "-p", "main", "-m", "-o", filepath.Join(dir, "without.o"), source); strings.Contains(out, inlined) {
		t.Fatalf("the call is inlined without a profile, too:\n%s", out)
	}
	if out := goTool(t, "compile", "-p", "main", "-m", "-pgoprofile", prepared, "-o", filepath.Join(dir, "with.o"), source); !strings.Contains(out, inlined) {
		t.Errorf("the call is not inlined with the profile:\n%s", out)
	}
}
