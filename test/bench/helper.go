package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// threadsVariable makes this program, started anew, a process of that many threads that do nothing.
const threadsVariable = "BPERF_BENCH_THREADS"

// process is a process with many threads, which ends when its standard input does.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startThreads(n int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", threadsVariable, n))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, stdin}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start %d threads: %w", n, err), p.stop())
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) stop() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// threadsOnly is the other side of startThreads: it reports whether this process was one of threads, now ended.
func threadsOnly() bool {
	n, err := strconv.Atoi(os.Getenv(threadsVariable))
	if err != nil {
		return false
	}
	started := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			select {}
		}()
	}
	for range n {
		<-started
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return true
}

// groups are empty cgroups in a common parent.
type groups struct {
	parent string   // directory
	names  []string // below the hierarchy's root, as options take them
}

func makeCgroups(n int) (*groups, error) {
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	g := &groups{parent: filepath.Join(root, fmt.Sprintf("bperf-bench-%d", os.Getpid()))}
	for i := range n {
		dir := filepath.Join(g.parent, strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, errors.Join(err, g.remove())
		}
		g.names = append(g.names, strings.TrimPrefix(dir, root+"/"))
	}
	return g, nil
}

func (g *groups) remove() error {
	var errs []error
	for i := range g.names {
		errs = append(errs, os.Remove(filepath.Join(g.parent, strconv.Itoa(i))))
	}
	return errors.Join(append(errs, os.Remove(g.parent))...)
}

// cgroupRoot finds where cgroup v2 is mounted.
func cgroupRoot() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", errors.New("cgroup v2 is not mounted: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
}
