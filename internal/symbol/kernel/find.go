package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Places are where kallsyms are looked for.
type Places struct {
	Kallsyms string // of the kernel that runs: /proc/kallsyms
	Notes    string // with its build ID: /sys/kernel/notes
	Cache    string // perf's cache of files by build ID: ~/.debug
}

// Find finds the kallsyms of the kernel with a build ID, in hexadecimal: of the one that runs, or what perf has kept of another one. Without
// a build ID it is that of the one that runs.
func (p Places) Find(buildID string) (path string, err error) {
	if buildID == "" {
		return p.Kallsyms, nil
	}
	running, err := readBuildID(p.Notes)
	if err == nil && running == buildID {
		return p.Kallsyms, nil
	}
	directory := filepath.Join(p.Cache, "[kernel.kallsyms]", buildID)
	for _, path := range []string{filepath.Join(directory, "kallsyms"), directory} { // the second is that of perf before 4.6
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	is := "This machine's is " + running
	if err != nil {
		is = fmt.Sprintf("This machine's is not known (%v)", err)
	}
	return "", fmt.Errorf("there are no symbols of the kernel with build ID %s. %s, and %s has none of it; a copy of /proc/kallsyms of the "+
		"machine of the recording, as root, can be given", buildID, is, p.Cache)
}

// readBuildID finds NT_GNU_BUILD_ID in ELF notes of this machine (/sys/kernel/notes).
func readBuildID(path string) (string, error) {
	const gnuBuildID = 3
	notes, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for b := notes; len(b) >= 12; {
		nameSize, size, kind := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
		nameEnd := 12 + (int64(nameSize)+3)&^3
		end := nameEnd + (int64(size)+3)&^3
		if end > int64(len(b)) {
			break
		}
		if kind == gnuBuildID && string(b[12:12+nameSize]) == "GNU\x00" {
			return hex.EncodeToString(b[nameEnd : nameEnd+int64(size)]), nil
		}
		b = b[end:]
	}
	return "", fmt.Errorf("%s has no build ID", path)
}
