package record

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// cgroups tells of all cgroups of the hierarchy whose IDs samples have: cgroup2, where the ID is the inode of the directory.
func (s *synthesizer) cgroups() error {
	root := cgroupRoot(s.proc)
	if root == "" {
		return nil
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // removed meanwhile
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

// cgroupRoot is where cgroup2 is mounted (proc_pid_mountinfo(5)); empty if it is not.
func cgroupRoot(proc string) string {
	mounts, err := procfs.Mounts(os.DirFS(proc), "self")
	if err != nil {
		return ""
	}
	dir, _ := procfs.FindMount(mounts, "cgroup2", "")
	return dir
}
