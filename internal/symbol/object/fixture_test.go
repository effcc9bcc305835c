package object

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/symbol"
)

// run runs a tool that makes or reads fixtures, and returns its output.
func run(t testing.TB, dir, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Minute
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// need skips a test if a tool is missing; with CI set, the test fails.
func need(t testing.TB, tools ...string) {
	t.Helper()
	for _, name := range tools {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("no %s on a machine of CI", name)
		}
		t.Skipf("needs %s", name)
	}
}

// build compiles testdata/fixture.c, or testdata/fixture.cc with a C++ compiler.
func build(t testing.TB, compiler string, flags ...string) string {
	t.Helper()
	need(t, compiler)
	source, err := filepath.Abs("testdata/fixture.c")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(compiler, "++") {
		source += "c"
	}
	out := filepath.Join(t.TempDir(), "fixture")
	run(t, "", compiler, slices.Concat([]string{"-O2", "-fPIC", "-Wl,--build-id", "-o", out}, flags, []string{source})...)
	return out
}

func open(t testing.TB, path string) *File {
	t.Helper()
	return openWith(t, Search{}, path, "")
}

func openWith(t testing.TB, s Search, path, buildID string) *File {
	t.Helper()
	f, err := s.Open(path, buildID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func named(f *File, name string) *symbol.Symbol {
	for s := range f.Symbols().All() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// wantFunctions checks that Functions finds the same as Frames, without source lines.
func wantFunctions(t testing.TB, f *File, addr uint64) {
	t.Helper()
	got, want := f.Functions(addr, nil), f.Frames(addr, nil)
	for i := range want {
		want[i].File, want[i].Line, want[i].Column = "", 0, 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("at %#x are the functions %+v, want %+v", addr, got, want)
	}
}

func needNamed(t testing.TB, f *File, name string) *symbol.Symbol {
	t.Helper()
	s := named(f, name)
	if s == nil {
		t.Fatalf("%s has no symbol %s", f.Path(), name)
	}
	return s
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
