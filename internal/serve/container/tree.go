package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
)

// Keep is the time for which a Tree knows a container after its end.
const Keep = 2 * time.Minute

const (
	mostCgroups    = 16384 // that a Tree knows
	mostContainers = 4096  // that a Tree knows, those that ended included
	mostBelow      = 256   // cgroups below one container's or service's that a walk finds; others are found when they run
	mostPath       = 1024  // bytes of Name.Path
)

// Dirs are the directories that a Tree reads.
type Dirs struct {
	Cgroups    string // mount point of cgroup v2
	Pods       string // the kubelet's logs by pod; it need not exist
	Containers string // the kubelet's logs by container; it need not exist
}

// FindDirs returns the directories of this machine. It fails if cgroup v2 is not mounted.
func FindDirs() (Dirs, error) { return findDirs(os.DirFS("/")) }

func findDirs(root fs.FS) (Dirs, error) {
	mounts, err := procfs.Mounts(procfs.Proc(root), "self")
	if err != nil {
		return Dirs{}, fmt.Errorf("find the cgroups: %w", err)
	}
	dir, ok := procfs.FindMount(mounts, "cgroup2", "")
	if _, v1 := procfs.FindMount(mounts, "cgroup", ""); !ok && v1 {
		return Dirs{}, errors.New("only cgroup v1 is mounted: containers are counted by their cgroups v2. Boot with systemd.unified_cgroup_hierarchy=1")
	}
	if !ok {
		return Dirs{}, errors.New("cgroup v2 is not mounted, by which containers are counted. Try: mount -t cgroup2 none /sys/fs/cgroup")
	}
	return Dirs{dir, "/var/log/pods", "/var/log/containers"}, nil
}

// Container is a container, or a unit of systemd, that a Tree knows. The Tree changes it; Ended and the names may become known later.
// A container or unit that starts again in a cgroup with the same path is the same Container, with the new cgroup.
type Container struct {
	Name
	Ended time.Time // when Refresh found its cgroup gone; zero while it exists

	path   string // of its cgroup, not cleaned
	walked int    // cgroups below its own that the present walk has found
}

// Removed is a cgroup that does not exist any more.
type Removed struct {
	ID        uint64
	Container *Container // that it belonged to; nil for none
}

// Tree knows the cgroups of a machine and to which containers they belong. It is not safe for concurrent use.
type Tree struct {
	dirs       Dirs
	logs       logs
	complete   func(*Name) // adds names from elsewhere; nil for none
	cgroups    map[uint64]*cgroup
	containers map[string]*Container // by path, not cleaned
	ids        map[string]*Container // by ID
	walk       uint64                // number of the last one
	skipped    uint64
}

// cgroup is a known cgroup.
type cgroup struct {
	path      string     // below the mount point
	container *Container // nil for none
	walk      uint64     // the last one that found it
}

// NewTree returns a Tree that knows no cgroups until Refresh. complete adds the names of a container in a pod that the kubelet's logs do not
// have. It must not wait; nil adds none.
func NewTree(dirs Dirs, complete func(*Name)) *Tree {
	return &Tree{dirs: dirs, complete: complete, logs: logs{pods: directory{path: dirs.Pods}, containers: directory{path: dirs.Containers}},
		cgroups: make(map[uint64]*cgroup), containers: make(map[string]*Container), ids: make(map[string]*Container)}
}

// Refresh finds the cgroups that exist, and returns those that are gone. It forgets containers that ended longer than Keep before now.
func (t *Tree) Refresh(now time.Time) ([]Removed, error) {
	logsErr := t.logs.refresh(now)
	if err := t.findAll(); err != nil {
		return nil, fmt.Errorf("list the cgroups: %w", err)
	}
	removed := t.sweep()
	for path, c := range t.containers {
		if id, _, err := t.stat(c.path); err != nil || id != c.Cgroup {
			if c.Ended.IsZero() {
				c.Ended = now
			}
		}
		if !c.Ended.IsZero() && now.Sub(c.Ended) > Keep {
			delete(t.containers, path)
			if t.ids[c.ID] == c {
				delete(t.ids, c.ID)
			}
			continue
		}
		t.addNames(&c.Name)
	}
	if logsErr != nil {
		return removed, fmt.Errorf("read the names of pods: %w", logsErr)
	}
	return removed, nil
}

// Containers returns all containers and units, in the order of their paths.
func (t *Tree) Containers() []*Container {
	all := make([]*Container, 0, len(t.containers))
	for _, c := range t.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Container) int { return strings.Compare(a.path, b.path) })
	return all
}

// Skipped returns how often there was no room for a cgroup or container.
func (t *Tree) Skipped() uint64 { return t.skipped }

// Of returns the container that a cgroup belongs to, or nil if it belongs to none. It finds cgroups that are newer than the last Refresh,
// which takes CAP_DAC_READ_SEARCH. It returns false for a cgroup that it cannot find.
func (t *Tree) Of(id uint64) (*Container, bool) {
	if c, ok := t.cgroups[id]; ok {
		return c.container, true
	}
	path, ok := bpfprog.CgroupPath(t.dirs.Cgroups, id)
	if !ok {
		return nil, false
	}
	if found, _, err := t.stat(path); err != nil || found != id { // removed right now
		return nil, false
	}
	c := t.add(id, path)
	if c == nil {
		return nil, false
	}
	return c.container, true
}

// stat returns the ID of the cgroup with a path, and the number of links to its directory.
func (t *Tree) stat(path string) (id, links uint64, err error) {
	info, err := os.Lstat(filepath.Join(t.dirs.Cgroups, path))
	if err != nil {
		return 0, 0, err
	}
	s := info.Sys().(*syscall.Stat_t)
	return s.Ino, uint64(s.Nlink), nil
}

// findAll walks the tree, by level, so that many cgroups in one place hide none in others.
func (t *Tree) findAll() error {
	t.walk++
	for _, c := range t.containers {
		c.walked = 0
	}
	for level := []string{"/"}; len(level) > 0; {
		var next []string
		for _, path := range level {
			id, links, err := t.stat(path)
			if err != nil && path == "/" {
				return err
			}
			if err != nil { // removed during the walk
				continue
			}
			c := t.add(id, path)
			if c == nil {
				continue
			}
			c.walk = t.walk
			room := min(mostCgroups-len(next), c.container.room())
			// A directory without directories has two links. Where file systems do not count links so, it is one.
			if links == 2 || room <= 0 {
				continue
			}
			below, err := subdirectories(filepath.Join(t.dirs.Cgroups, path), room)
			if err != nil {
				continue
			}
			if c.container != nil {
				c.container.walked += len(below)
			}
			for _, dir := range below {
				next = append(next, strings.TrimPrefix(dir, strings.TrimSuffix(t.dirs.Cgroups, "/")))
			}
		}
		level = next
	}
	return nil
}

// room returns how many more cgroups of the container a walk may find. Who may make cgroups in a container or service could make it endless;
// slices are the system's.
func (c *Container) room() int {
	if c == nil || strings.HasSuffix(c.path, ".slice") {
		return mostCgroups
	}
	return mostBelow - c.walked
}

// add returns a cgroup that exists, which may be known already. It returns nil if there is no room.
func (t *Tree) add(id uint64, path string) *cgroup {
	if c, ok := t.cgroups[id]; ok && c.path == path {
		return c
	}
	if len(t.cgroups) >= mostCgroups {
		t.skipped++
		return nil
	}
	c := &cgroup{path: path, walk: t.walk}
	if name, ok := Parse(path); ok {
		c.container = t.container(name)
	}
	t.cgroups[id] = c
	return c
}

// container returns the container with a name, which may be known already. It returns nil if there is no room, or if its cgroup is gone.
func (t *Tree) container(name Name) *Container {
	id, _, err := t.stat(name.Path)
	if err != nil {
		return nil
	}
	c := t.containers[name.Path]
	if c != nil {
		c.Cgroup, c.Ended = id, time.Time{}
		return c
	}
	if len(t.containers) >= mostContainers {
		t.skipped++
		return nil
	}
	c = &Container{Name: name, path: name.Path}
	c.Cgroup, c.Path = id, printable.Short(name.Path, mostPath)
	if t.ids[name.ID] != nil { // who may make cgroups can choose their names; the first container with an ID keeps it
		c.ID, c.PodUID = "", ""
	} else if name.ID != "" {
		t.ids[name.ID] = c
	}
	t.addNames(&c.Name)
	t.containers[name.Path] = c
	return c
}

// addNames adds the names of the container and its pod.
func (t *Tree) addNames(n *Name) {
	t.logs.complete(n)
	if t.complete != nil && n.PodUID != "" && n.Container == "" {
		t.complete(n)
	}
}

// sweep forgets the cgroups that are gone, and returns them.
func (t *Tree) sweep() (removed []Removed) {
	for id, c := range t.cgroups {
		if c.walk == t.walk {
			continue
		}
		if found, _, err := t.stat(c.path); err == nil && found == id {
			continue
		}
		delete(t.cgroups, id)
		removed = append(removed, Removed{id, c.container})
	}
	return removed
}
