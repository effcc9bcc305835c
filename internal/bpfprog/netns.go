package bpfprog

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
	pids, err := listPIDs(proc, "")
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
	mounts, err := os.ReadFile(path.Join(thread, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("look for network namespaces: %w", err)
	}
	found = append(found, mountedNetworks(string(mounts))...)
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

// mountedNetworks are those of /proc/self/mountinfo (https://docs.kernel.org/filesystems/proc.html, 3.5): the root of such a mount is the name.
func mountedNetworks(mounts string) (found []network) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) >= 5 && len(kind) > 0 && kind[0] == "nsfs" && strings.HasPrefix(place[3], "net:[") {
			found = append(found, network{place[3], unescape.Replace(place[4])})
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
