package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// hot is a program with a call that the compiler inlines only if a profile shows that the call is hot.
const hot = `package main

var sum int

func work(n int) {
	var last [4]int // makes it have a frame: without one its caller is not in callchains by frame pointers
	for i := 0; i < n; i++ {
		switch i % 7 {
		case 0: sum += i * 3
		case 1: sum -= i
		case 2: sum ^= i << 3
		case 3: sum += sum >> 2
		case 4: sum *= 5
		case 5: sum += i * i
		default: sum -= last[i&3]
		}
		if sum > 1<<40 { sum = sum%1000 + i*i - 3*i + 9 }
		last[sum&3] = i
	}
}

func main() {
	for range 100_000 {
		work(1000)
	}
}
`

// TestPGO profiles a Go program and passes the profile to Go's compiler, as go build -pgo does. The compiler must then inline the hot call.
func TestPGO(t *testing.T) {
	require.Root(t)
	require.Tools(t, "go")
	dir := t.TempDir()
	source, prepared := filepath.Join(dir, "main.go"), filepath.Join(dir, "prepared")
	if err := os.WriteFile(source, []byte(hot), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	goCommand := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.WaitDelay, cmd.Dir = time.Minute, dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	goCommand("build", "-pgo=off", "-o", "hot", "main.go")
	for _, args := range [][]string{
		{"record", "-g", "-e", "cpu-clock", "-F", "4000", "-o", "perf.data", "--", "./hot"},
		{"report", "-i", "perf.data", "--format", "pprof", "-o", "cpu.pprof"},
	} {
		plain := bperf(args...)
		cmd := exec.CommandContext(ctx, plain.Path, args...)
		cmd.WaitDelay, cmd.Args, cmd.Env, cmd.Dir = time.Minute, plain.Args, plain.Env, dir
		if got := run(t, cmd); got.status != 0 {
			t.Fatalf("bperf %s: status %d\n%s", strings.Join(args, " "), got.status, got.stderr)
		}
	}
	goCommand("tool", "preprofile", "-i", "cpu.pprof", "-o", prepared)
	const inlined = "inlining call to work"
	if out := goCommand("tool", "compile", "-p", "main", "-m", "-o", "without.o", "main.go"); strings.Contains(out, inlined) {
		t.Fatalf("the call is inlined without a profile, too:\n%s", out)
	}
	if out := goCommand("tool", "compile", "-p", "main", "-m", "-pgoprofile", prepared, "-o", "with.o", "main.go"); !strings.Contains(out, inlined) {
		text, _ := os.ReadFile(prepared)
		t.Errorf("the call is not inlined with the profile:\n%s\n%s", out, text)
	}
}
