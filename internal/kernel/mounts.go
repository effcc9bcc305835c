package kernel

import (
	"io/fs"
	"slices"
	"strings"
)

// mounts are the mounted file systems.
type mounts []mount

type mount struct {
	dir, kind string
	options   []string // of the file system
}

// readMounts reads /proc/self/mounts, in the form of fstab(5).
func readMounts(proc fs.FS) (mounts, error) {
	text, err := fs.ReadFile(proc, "self/mounts")
	if err != nil {
		return nil, err
	}
	var all mounts
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 4 {
			all = append(all, mount{unescape.Replace(f[1]), f[2], strings.Split(f[3], ",")})
		}
	}
	return all, nil
}

// unescape turns the characters back that would be taken for ends of fields.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// find returns where the first file system of a kind is mounted, with an option unless it is empty.
func (m mounts) find(kind, option string) (dir string, ok bool) {
	i := slices.IndexFunc(m, func(m mount) bool {
		return m.kind == kind && (option == "" || slices.Contains(m.options, option))
	})
	if i < 0 {
		return "", false
	}
	return m[i].dir, true
}
