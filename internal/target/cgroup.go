package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
)

// hierarchy is the mounted tree of the cgroups that perf events know. That is the one of the v1 controller perf_event if it is mounted, and
// otherwise that of v2, where the controller is always on.
type hierarchy struct {
	kind  string // "perf_event" or "cgroup2"
	mount string // absolute
}

// findHierarchy finds the hierarchy among the mounts of this process.
func findHierarchy(root fs.FS) (hierarchy, error) {
	mounts, err := procfs.Mounts(procfs.Proc(root), "self")
	if err != nil {
		return hierarchy{}, fmt.Errorf("find the cgroup hierarchy: %w", err)
	}
	if v1, ok := procfs.FindMount(mounts, "cgroup", "perf_event"); ok {
		return hierarchy{"perf_event", v1}, nil
	}
	unified, ok := procfs.FindMount(mounts, "cgroup2", "")
	if !ok {
		return hierarchy{}, errors.New("no cgroup hierarchy that perf events support is mounted (cgroup2, or cgroup v1 with perf_event)." +
			" Try: mount -t cgroup2 none /sys/fs/cgroup")
	}
	v1, err := perfCgroupsAreV1(root)
	if err != nil {
		return hierarchy{}, err
	}
	if v1 {
		return hierarchy{}, errors.New("perf events use the cgroups of a v1 hierarchy, which is not mounted." +
			" Try: mount -t cgroup -o perf_event none DIRECTORY")
	}
	return hierarchy{"cgroup2", unified}, nil
}

// PerfCgroupsAreV1 reports whether perf events know the cgroups of a v1 hierarchy, because their controller perf_event belongs to one. The
// hierarchy need not be mounted (/proc/cgroups, https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html).
func PerfCgroupsAreV1() (bool, error) { return perfCgroupsAreV1(os.DirFS("/")) }

func perfCgroupsAreV1(root fs.FS) (bool, error) {
	controllers, err := fs.ReadFile(root, "proc/cgroups")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without cgroups
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the cgroup controller perf_event: %w", err)
	}
	for line := range strings.Lines(string(controllers)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "perf_event" {
			return f[1] != "0", nil
		}
	}
	return false, nil
}

// dir returns the directory of a cgroup. The name is a path from the root of the hierarchy, with or without a leading slash ("/" and "" are
// the root itself), or the full path.
func (h hierarchy) dir(name string) string {
	if name == h.mount {
		return h.mount
	}
	if below, ok := strings.CutPrefix(name, h.mount+"/"); ok {
		name = below
	}
	return path.Join(h.mount, path.Clean("/"+name))
}

func resolveCgroups(root fs.FS, names []string) ([]Cgroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	h, err := findHierarchy(root)
	if err != nil {
		return nil, err
	}
	groups := make([]Cgroup, len(names))
	for i, name := range names {
		dir := h.dir(name)
		info, err := fs.Stat(root, inFS(dir))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return nil, fmt.Errorf("there is no cgroup %q: looked for the directory %s in the %s hierarchy mounted on %s",
				name, dir, h.kind, h.mount)
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup %q: %w", name, err)
		}
		groups[i] = Cgroup{Name: name, Path: dir}
	}
	return groups, nil
}

// CgroupsBelow returns the names of the cgroups directly below one, at most limit of them. An empty name is that of the root.
func CgroupsBelow(name string, limit int) ([]string, error) {
	h, err := findHierarchy(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(h.dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(limit)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// inFS converts an absolute path to a path of fs.FS.
func inFS(abs string) string {
	if abs == "/" {
		return "."
	}
	return strings.TrimPrefix(abs, "/")
}

// MatchCgroups returns the names of the cgroups that --for-each-cgroup selects. The list is separated by commas. If it contains any of the
// characters {}[]()|*+?^$, it is a regular expression instead (RE2 syntax), and selects all cgroups whose name has a match anywhere. Those
// names have no leading slash, except for the root "/", and are sorted. MatchCgroups does not check that the names of a list exist.
func MatchCgroups(list string) ([]string, error) { return matchCgroups(os.DirFS("/"), list) }

func matchCgroups(root fs.FS, list string) ([]string, error) {
	if !strings.ContainsAny(list, "{}[]()|*+?^$") {
		return splitCgroups(list)
	}
	expr, err := regexp.Compile(list)
	if err != nil {
		return nil, fmt.Errorf("cgroups %q: %w", list, err)
	}
	h, err := findHierarchy(root)
	if err != nil {
		return nil, err
	}
	var names []string
	err = fs.WalkDir(root, inFS(h.mount), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we walk the tree
		}
		if err != nil || !d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix("/"+p, h.mount), "/")
		if name == "" {
			name = "/"
		}
		if expr.MatchString(name) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the cgroups in %s: %w", h.mount, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no cgroup below %s matches %q", h.mount, list)
	}
	return names, nil
}

func splitCgroups(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			return nil, fmt.Errorf("cgroups %q: a name is empty (the root is /)", list)
		}
		if !slices.Contains(names, name) { // a cgroup that is listed twice is counted once, as in perf
			names = append(names, name)
		}
	}
	return names, nil
}
