package object

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fuseMounts is where file systems of FUSE are in a mount namespace. Their servers are programs, often of users, which may never answer. A thread
// that waits for an answer cannot be killed, and keeps its whole process from ending (request_wait_answer in fs/fuse/dev.c): so root never asks them, and
// other users ask only their own.
type fuseMounts struct {
	dirs    []string // as the processes of the namespace see them
	devices map[uint64]bool
}

// readFuseMounts reads the mounts of a process: proc_pid_mountinfo(5).
func readFuseMounts(process string) (fuseMounts, error) {
	text, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		return fuseMounts{}, err
	}
	return parseFuseMounts(string(text), os.Geteuid()), nil
}

// parseFuseMounts finds those that a user does not ask.
func parseFuseMounts(mountinfo string, user int) fuseMounts {
	m := fuseMounts{devices: map[uint64]bool{}}
	own := fmt.Sprintf(",user_id=%d,", user) // include/uapi/linux/fuse.h has no name for it: fs/fuse/inode.c
	for line := range strings.Lines(mountinfo) {
		mount, fileSystem, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(fileSystem, " ")
		kind, _, _ = strings.Cut(kind, ".") // what follows is a name of the server's
		fields := strings.Fields(mount)
		if kind != "fuse" && kind != "fuseblk" || len(fields) < 5 || user != 0 && strings.Contains(line, own) {
			continue
		}
		m.dirs = append(m.dirs, unescapeMount.Replace(fields[4]))
		var major, minor uint32
		if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err == nil {
			m.devices[unix.Mkdev(major, minor)] = true
		}
	}
	return m
}

// unescapeMount turns the characters back that would end a field.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// have reports whether a path without symbolic links leads into one of them.
func (m fuseMounts) have(path string) bool {
	return slices.ContainsFunc(m.dirs, func(dir string) bool { return within(dir, path) })
}

// within reports whether a path is that of a directory, or below it.
func within(dir, path string) bool {
	rest, is := strings.CutPrefix(path, dir)
	return is && (rest == "" || rest[0] == '/' || dir == "/")
}

var errFuse = errors.New("it is on a file system of FUSE, whose server may never answer: it is not read")
