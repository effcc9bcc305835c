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
	name string // net:[NUMBER], as the kernel has it
	file string // by which it can be entered
}

// otherNetworks are the network namespaces that processes are in, and those that are mounted, as `ip netns` does it, but for that of
// this thread. The roots are procfs and its directory for this thread.
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
		if name, err := os.Readlink(file); err == nil { // others have ended, or may not be looked at
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

// mountedNetworks returns those that are mounted: the root of such a mount is the name of the namespace.
func mountedNetworks(mounts []procfs.Mount) (found []network) {
	for _, m := range mounts {
		if m.Type == "nsfs" && strings.HasPrefix(m.Root, "net:[") {
			found = append(found, network{m.Root, m.Dir})
		}
	}
	return found
}

// enter does something in the namespace, on a thread that is there for it alone.
func (n network) enter(do func() error) error {
	fd, err := unix.Open(n.file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", n.file, err)
	}
	defer unix.Close(fd)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it is never unlocked, so that nobody else gets this thread
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", n.name, err)
			return
		}
		done <- do()
	}()
	return <-done
}
