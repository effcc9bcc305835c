// Package daemon runs a real `bperf serve` as fleets do: Prometheus and VictoriaMetrics of Debian 12 scrape it, Prometheus evaluates the
// rules and the dashboard, and it runs with the capabilities that it has in Kubernetes.
package daemon

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bperf/bperf/test/fleet/pod"
)

// program is the path of bperf.
var program string

// TestMain builds bperf, unless BPERF names one.
func TestMain(m *testing.M) {
	pod.WorkIfAsked()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if program = os.Getenv("BPERF"); program != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "bperf-fleet-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "bperf")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/bperf")
	build.Dir = filepath.Join("..", "..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build bperf: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
