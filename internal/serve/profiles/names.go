package profiles

import (
	"sync"

	"github.com/bperf/bperf/internal/serve/container"
)

// names remembers the containers of the samples of a session by the paths of their cgroups, which are the labels of the samples. Containers
// without samples in two windows are forgotten.
type names struct {
	find func(cgroup uint64) (container.Name, bool) // may wait for a reading of all counters, so it is called once for a cgroup and window

	mu          sync.Mutex
	found       map[uint64]string         // paths by cgroup, "" for none; of the present window
	now, before map[string]container.Name // of the present window and of the one before
}

func newNames(find func(uint64) (container.Name, bool)) *names {
	return &names{find: find, found: map[uint64]string{}, now: map[string]container.Name{}}
}

// path returns the path of the container that a cgroup belongs to, or "". It is the sampler's CgroupPath.
func (n *names) path(cgroup uint64) string {
	if n.find == nil {
		return ""
	}
	n.mu.Lock()
	path, known := n.found[cgroup]
	n.mu.Unlock()
	if known {
		return path
	}
	name, ok := n.find(cgroup)
	if !ok {
		name.Path = ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found[cgroup] = name.Path
	if name.Path != "" {
		n.now[name.Path] = name
	}
	return name.Path
}

// of returns the container with a path.
func (n *names) of(path string) container.Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.now[path]; ok {
		return name
	}
	return n.before[path]
}

// turn begins the next window.
func (n *names) turn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before, n.now = n.now, map[string]container.Name{}
	n.found = map[uint64]string{} // and not cleared: its size would be the largest ever
}
