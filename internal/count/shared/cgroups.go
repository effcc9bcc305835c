package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"syscall"

	"github.com/bperf/bperf/internal/target"
)

// claimCgroups makes a node of a session for each cgroup of its target: below the node that the cgroup has, or else below the node of
// the nearest cgroup above it that has one.
func (b *book) claimCgroups(s session, cgroups []target.Cgroup) error {
	before := make(map[uint64]uint32)
	if err := eachElement(b.o.maps[countersMapCgroups], func(cgroup uint64, id uint32) error {
		before[cgroup] = id
		return nil
	}); err != nil {
		return fmt.Errorf("read the table of cgroups: %w", err)
	}
	tops := maps.Clone(before)
	for unit, cgroup := range cgroups {
		if err := b.claimCgroup(tops, s, uint32(unit), cgroup); err != nil {
			return fmt.Errorf("count cgroup %s: %w", cgroup.Name, err)
		}
	}
	b.nodes.settle(b.live, b.now)
	if err := b.write(); err != nil {
		return err
	}
	for cgroup, id := range tops {
		if before[cgroup] == id {
			continue
		}
		if err := b.o.maps[countersMapCgroups].Put(cgroup, id); err != nil {
			return fmt.Errorf("write the table of cgroups: %w", err)
		}
	}
	return b.changeCgroups(uint32(len(tops)))
}

// claimCgroup makes the node of one cgroup. tops has the node that the tasks of each cgroup count for.
func (b *book) claimCgroup(tops map[uint64]uint32, s session, unit uint32, cgroup target.Cgroup) error {
	id, above, err := cgroupIDs(cgroup.Path)
	if err != nil {
		return err
	}
	top, counted := tops[id]
	parent := top
	for i := 0; !counted && i < len(above) && parent == 0; i++ {
		parent = tops[above[i]]
	}
	node, err := b.nodes.add(countersNode{Session: s.number, Unit: unit, Parent: parent, Cgroup: id}, b.now)
	if err != nil {
		return err
	}
	tops[id] = node
	if counted { // the nodes below the old top are now below the new one
		b.nodes.move(top, node, func(of uint64) bool { return of != id })
		return nil
	}
	below, err := cgroupsBelow(cgroup.Path)
	if err != nil {
		return err
	}
	b.nodes.move(parent, node, func(of uint64) bool { return below[of] })
	return nil
}

// move moves the selected nodes of cgroups from below one node to below another.
func (n nodes) move(from, to uint32, selected func(cgroup uint64) bool) {
	for id := range n {
		node := &n[id]
		if uint32(id) != to && node.Session != 0 && node.Cgroup != 0 && node.Parent == from && selected(node.Cgroup) {
			node.Parent = to
		}
	}
}

// rootCgroup is the ID of the topmost cgroup of a hierarchy.
const rootCgroup = 1

// cgroupIDs returns the IDs of a cgroup and of all cgroups above it, the nearest first. It fails if this process does not see the root.
// An ID is the inode number of the cgroup's directory.
func cgroupIDs(dir string) (id uint64, above []uint64, err error) {
	first, err := statDir(dir)
	if err != nil {
		return 0, nil, err
	}
	for at := first; ; {
		dir = filepath.Dir(dir)
		up, err := statDir(dir)
		if err != nil {
			return 0, nil, err
		}
		if up.Dev != at.Dev || up.Ino == at.Ino { // outside of the hierarchy
			if at.Ino != rootCgroup {
				return 0, nil, errors.New("this process is in a cgroup namespace and does not see the cgroups above, which other " +
					"sessions may count. Count it without --bpf-counters, or outside of the namespace")
			}
			return first.Ino, above, nil
		}
		above = append(above, up.Ino)
		at = up
	}
}

func statDir(dir string) (syscall.Stat_t, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		return s, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return s, nil
}

// cgroupsBelow returns the IDs of all cgroups below one.
func cgroupsBelow(dir string) (map[uint64]bool, error) {
	below := make(map[uint64]bool)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed during the walk
			return nil
		}
		if err != nil || !d.IsDir() || path == dir {
			return err
		}
		s, err := statDir(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		below[s.Ino] = true
		return err
	})
	return below, err
}
