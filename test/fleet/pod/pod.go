// Package pod makes pods like those of Kubernetes: their cgroups, the directories with their names, and work in their containers.
package pod

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names of all containers.
const (
	Namespace = "shop"
	Container = "app"
)

// Pod is a pod with a container.
type Pod struct {
	Name string
	UID  string
	ID   string // of its container
}

// New returns a pod with random IDs.
func New(name string) *Pod {
	digits := make([]byte, 48)
	rand.Read(digits)
	hex := fmt.Sprintf("%x", digits)
	return &Pod{Name: name, UID: strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32]}, "-"), ID: hex[32:]}
}

// Cgroups returns the names of the cgroups that systemd makes for the pod and its container. parent is the path of the slice around them
// without its ending.
func (p *Pod) Cgroups(parent string) (slice, scope string) {
	slice = parent + "-pod" + strings.ReplaceAll(p.UID, "-", "_") + ".slice"
	return slice, filepath.Join(slice, "cri-containerd-"+p.ID+".scope")
}

// AddNames makes the kubelet's directories of the pod's logs, with which a node knows the names of the pod and its container. logs is the
// node's /var/log.
func (p *Pod) AddNames(logs string) error {
	links := filepath.Join(logs, "containers")
	link := filepath.Join(links, fmt.Sprintf("%s_%s_%s-%s.log", p.Name, Namespace, Container, p.ID))
	return errors.Join(
		os.MkdirAll(filepath.Join(logs, "pods", fmt.Sprintf("%s_%s_%s", Namespace, p.Name, p.UID), Container), 0o755),
		os.MkdirAll(links, 0o755),
		os.WriteFile(link, nil, 0o600))
}

// variable is the environment variable that makes a program the work of a container: how many pages it touches in a round.
const variable = "BPERF_TEST_WORK"

// Start starts the work of a container in a cgroup: this program again, which must call WorkIfAsked. The work ends with the thread that
// called Start.
func Start(cgroup string, pages int) (*exec.Cmd, error) {
	into, err := os.Open(cgroup)
	if err != nil {
		return nil, err
	}
	defer into.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprint(variable, "=", pages))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(into.Fd()), Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// WorkIfAsked does not return in a process of Start. There it works until the process is killed.
func WorkIfAsked() {
	if pages := os.Getenv(variable); pages != "" {
		fmt.Fprintln(os.Stderr, work(pages))
		os.Exit(1)
	}
}

// work works until it is killed: in each round it computes, touches pages that it then gives back, and rests.
func work(pages string) error {
	n, err := strconv.Atoi(pages)
	if err != nil {
		return err
	}
	sum := uint64(1)
	for {
		memory, err := syscall.Mmap(-1, 0, n*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := range 1_000_000 {
			sum = sum*6364136223846793005 + uint64(i)
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = byte(sum)
		}
		if err := syscall.Munmap(memory); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
