package object

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// fuseMounts are the FUSE mounts in a mount namespace. FUSE servers are programs, often of other users, which may never answer. A thread
// that waits for an answer cannot be killed, and prevents its process from ending (request_wait_answer in fs/fuse/dev.c). So root never
// asks them, and other users ask only their own.
type fuseMounts struct {
	dirs    []string // as the processes of the namespace see them
	devices map[uint64]bool
}

// readFuseMounts reads the mounts of a process, which is named like its directory in /proc.
func readFuseMounts(process string) (fuseMounts, error) {
	mounts, err := procfs.Mounts(os.DirFS("/proc"), process)
	if err != nil {
		return fuseMounts{}, err
	}
	return findFuse(mounts, os.Geteuid()), nil
}

// findFuse returns the mounts that a user must not ask.
func findFuse(mounts []procfs.Mount, user int) fuseMounts {
	m := fuseMounts{devices: map[uint64]bool{}}
	for _, mount := range mounts {
		kind, _, _ := strings.Cut(mount.Type, ".")
		own := user != 0 && mount.HasOption(fmt.Sprintf("user_id=%d", user)) // fs/fuse/inode.c
		if kind != "fuse" && kind != "fuseblk" || own {
			continue
		}
		m.dirs = append(m.dirs, mount.Dir)
		m.devices[unix.Mkdev(mount.Major, mount.Minor)] = true
	}
	return m
}

// have reports whether a path without symbolic links leads into one of the mounts.
func (m fuseMounts) have(path string) bool {
	return slices.ContainsFunc(m.dirs, func(dir string) bool { return within(dir, path) })
}

// within reports whether a path is a directory or below it.
func within(dir, path string) bool {
	rest, is := strings.CutPrefix(path, dir)
	return is && (rest == "" || rest[0] == '/' || dir == "/")
}

var errFuse = errors.New("it is on a file system of FUSE, whose server may never answer: it is not read")
