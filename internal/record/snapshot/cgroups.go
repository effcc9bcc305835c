package snapshot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Cgroups emits all cgroups of cgroup2, the hierarchy whose IDs samples have. The ID is the inode of the directory.
func (s *Snapshot) Cgroups() error {
	root := CgroupRoot(s.proc)
	if root == "" {
		return nil
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // the cgroup was removed
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		name := strings.TrimPrefix(path, root)
		if name == "" {
			name = "/"
		}
		return s.emit(perfdata.MiscKernel, &perfdata.Cgroup{ID: stat.Ino, Path: name})
	})
}

// CgroupRoot returns where cgroup2 is mounted (proc_pid_mountinfo(5)); empty if it is not mounted.
func CgroupRoot(proc string) string {
	mounts, err := procfs.Mounts(os.DirFS(proc), "self")
	if err != nil {
		return ""
	}
	dir, _ := procfs.FindMount(mounts, "cgroup2", "")
	return dir
}
