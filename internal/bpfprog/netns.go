package bpfprog

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// network is a network namespace.
type network struct {
	name string // the kernel's name, net:[NUMBER]
	file string // file to open for setns(2)
}

// otherNetworks returns the network namespaces of processes and the mounted ones (as `ip netns` mounts them), except the namespace of this
// thread. proc is where procfs is mounted, thread its directory for this thread.
func otherNetworks(proc, thread string) ([]network, error) {
	own, err := os.Readlink(path.Join(thread, "ns/net"))
	if err != nil {
		return nil, fmt.Errorf("look for network namespaces: %w", err)
	}
	pids, err := procfs.Processes(os.DirFS(proc))
	if err != nil {
		return nil, fmt.Errorf("look for network namespaces: %w", err)
	}
	var found []network
	for _, pid := range pids {
		file := path.Join(proc, strconv.Itoa(pid), "ns/net")
		if name, err := os.Readlink(file); err == nil { // otherwise the process has ended or permission is missing
			found = append(found, network{name, file})
		}
	}
	mounts, err := procfs.Mounts(os.DirFS(path.Dir(thread)), path.Base(thread))
	if err != nil {
		return nil, fmt.Errorf("look for network namespaces: %w", err)
	}
	found = append(found, mountedNetworks(mounts)...)
	seen := map[string]bool{own: true}
	var others []network
	for _, n := range found {
		if !seen[n.name] {
			seen[n.name] = true
			others = append(others, n)
		}
	}
	return others, nil
}

// mountedNetworks returns the network namespaces that are mounted. The root of such a mount is the name of the namespace.
func mountedNetworks(mounts []procfs.Mount) (found []network) {
	for _, m := range mounts {
		if m.Type == "nsfs" && strings.HasPrefix(m.Root, "net:[") {
			found = append(found, network{m.Root, m.Dir})
		}
	}
	return found
}

// enter calls do in the namespace, on a thread of its own.
func (n network) enter(do func() error) error {
	fd, err := unix.Open(n.file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", n.file, err)
	}
	defer unix.Close(fd)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that no other goroutine gets this thread
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", n.name, err)
			return
		}
		done <- do()
	}()
	return <-done
}
