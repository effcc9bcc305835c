package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// groups are empty cgroups in a common parent.
type groups struct {
	parent string   // directory
	names  []string // relative to the hierarchy's root, as in options
}

func makeCgroups(n int) (*groups, error) {
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	g := &groups{parent: filepath.Join(root, fmt.Sprintf("bperf-bench-%d", os.Getpid()))}
	for i := range n {
		dir := g.dir(i)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, errors.Join(err, g.remove())
		}
		g.names = append(g.names, strings.TrimPrefix(dir, root+"/"))
	}
	return g, nil
}

func (g *groups) dir(i int) string { return filepath.Join(g.parent, strconv.Itoa(i)) }

func (g *groups) dirs() []string {
	var dirs []string
	for i := range g.names {
		dirs = append(dirs, g.dir(i))
	}
	return dirs
}

func (g *groups) remove() error {
	var errs []error
	for i := range g.names {
		errs = append(errs, os.Remove(g.dir(i)))
	}
	return errors.Join(append(errs, os.Remove(g.parent))...)
}

// cgroupRoot returns the mount point of cgroup v2.
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
