// Package server starts the servers of tests, and waits for what they do.
package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the time after which a test gives up. It only ends a hang.
const patience = 3 * time.Minute

// Await calls f until it returns an empty string. The string says what is missing.
func Await(t *testing.T, what string, f func() (missing string)) {
	t.Helper()
	AwaitLong(t, patience, what, f)
}

// AwaitLong is Await with another patience.
func AwaitLong(t *testing.T, patience time.Duration, what string, f func() (missing string)) {
	t.Helper()
	missing := f()
	for deadline := time.Now().Add(patience); missing != ""; missing = f() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, patience, missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on. It is below the ports that Linux gives to connections, so that none of
// them takes it while the server that listens on it restarts.
func FreePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(FreePorts(t, 1)[0])
}

// FreePorts returns n ports like that of FreePort.
func FreePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for port := 10000 + os.Getpid()%10000; port < 32768 && len(ports) < n; port++ {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		t.Fatalf("no %d ports are free", n)
	}
	return ports
}

// Server is a process that runs until the end of the test.
type Server struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	log strings.Builder // its standard error
}

// Start starts a server.
func Start(t *testing.T, cmd *exec.Cmd) *Server {
	t.Helper()
	s := &Server{t: t, cmd: cmd}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a timeout of the tests ends them without Cleanup
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
		s.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, s.log.String())
		}
	})
	return s
}

// Kill ends the server by SIGKILL.
func (s *Server) Kill() {
	s.cmd.Process.Signal(syscall.SIGKILL) // fails after its end
	s.cmd.Wait()                          // returns that it was killed
}

// Logged waits for a line of the log that matches, and returns what the first group of the pattern matched.
func (s *Server) Logged(pattern string) string {
	s.t.Helper()
	expression := regexp.MustCompile(pattern)
	var found string
	Await(s.t, s.cmd.Path, func() string {
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
