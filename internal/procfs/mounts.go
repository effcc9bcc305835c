package procfs

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Mount is a mounted file system.
type Mount struct {
	Major, Minor uint32   // device number
	Root         string   // the directory of the file system that is mounted; for a namespace, its name
	Dir          string   // the mount point, as the process sees it
	Type         string   // such as fuse.sshfs, where the part after the dot names the server
	Options      []string // of the file system, not of the mount
}

// HasOption reports whether the file system has an option, such as a controller of cgroups v1.
func (m *Mount) HasOption(option string) bool { return slices.Contains(m.Options, option) }

// Mounts returns the mounts that a process sees, in the order of /proc/PID/mountinfo (section 3.5). process is "self", "thread-self" or a
// PID. Mounts skips malformed lines.
func Mounts(proc fs.FS, process string) ([]Mount, error) {
	text, err := read(proc, "/proc", process+"/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []Mount
	for line := range strings.Lines(text) {
		if m, ok := parseMount(line); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

func parseMount(line string) (m Mount, ok bool) {
	mount, fileSystem, _ := strings.Cut(line, " - ")
	of, is := strings.Fields(mount), strings.Fields(fileSystem)
	if len(of) < 5 || len(is) < 3 {
		return Mount{}, false
	}
	major, minor, _ := strings.Cut(of[2], ":")
	a, err1 := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return Mount{}, false
	}
	return Mount{uint32(a), uint32(b), unescape(of[3]), unescape(of[4]), is[0], strings.Split(is[2], ",")}, true
}

// unescape replaces the octal escapes that the kernel writes for blanks, tabs, newlines and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// FindMount returns the mount point of the first file system with the given type, and with the given option unless that is empty. It
// returns false if there is none.
func FindMount(mounts []Mount, fileSystem, option string) (dir string, ok bool) {
	for i := range mounts {
		if m := &mounts[i]; m.Type == fileSystem && (option == "" || m.HasOption(option)) {
			return m.Dir, true
		}
	}
	return "", false
}
