// Package daemon runs a real `bperf serve` as fleets do: Prometheus and VictoriaMetrics of Debian 12 scrape it, Prometheus evaluates the
// rules and the dashboard, and it runs with the capabilities that it has in Kubernetes.
package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of bperf.
var program string

// TestMain makes the test binary the work of a container if the environment says so. Otherwise it builds bperf, unless BPERF names one.
func TestMain(m *testing.M) {
	if work := os.Getenv(workVariable); work != "" {
		fmt.Fprintln(os.Stderr, runWork(work))
		os.Exit(1)
	}
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

// patience is the time after which a test gives up. It only ends a hang.
const patience = 3 * time.Minute

// await calls f until it returns an empty string. The string says what is missing.
func await(t *testing.T, what string, f func() (missing string)) {
	t.Helper()
	missing := f()
	for deadline := time.Now().Add(patience); missing != ""; missing = f() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, patience, missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// freePort returns a TCP port of 127.0.0.1 that nobody listens on. It is below the ports that Linux gives to connections, so that none of
// them takes it while the server that listens on it restarts.
func freePort(t *testing.T) string {
	t.Helper()
	for port := 10000 + os.Getpid()%10000; port < 32768; port++ {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			l.Close()
			return fmt.Sprint(port)
		}
	}
	t.Fatal("no port is free")
	return ""
}

// server is a process that runs until the end of the test.
type server struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	log strings.Builder // its standard error
}

// start starts a server.
func start(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for r := bufio.NewReader(stderr); ; {
			line, err := r.ReadString('\n')
			s.mu.Lock()
			s.log.WriteString(line)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		s.kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, s.log.String())
		}
	})
	return s
}

// kill ends the server by SIGKILL.
func (s *server) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL) // fails after its end
	s.cmd.Wait()                          // returns that it was killed
}

// logged waits for a line of the log that matches, and returns what the first group of the pattern matched.
func (s *server) logged(pattern string) string {
	s.t.Helper()
	expression := regexp.MustCompile(pattern)
	var found string
	await(s.t, s.cmd.Path, func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := expression.FindStringSubmatch(s.log.String())
		if m == nil {
			return "no line matches " + pattern + ":\n" + s.log.String()
		}
		found = m[1]
		return ""
	})
	return found
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
