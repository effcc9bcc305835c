package replay

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// owner is a process that had something mapped. While it lives, and it is still mapped there, its files can be had as it sees them.
type owner struct {
	pid   int32
	start uint64 // of the mapping
	path  string // of the file; empty for memory without one
}

// root is the process's root directory as this one sees it. False says that the process is gone, or is another one, be it that the recording is
// of another machine: then it does not have the same mapping.
func (o owner) root() (string, bool) {
	proc := filepath.Join("/proc", strconv.Itoa(int(o.pid)))
	maps, err := os.Open(filepath.Join(proc, "maps"))
	if err != nil {
		return "", false
	}
	defer func() { _ = maps.Close() }() // it is only read
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if o.is(lines.Text()) {
			return filepath.Join(proc, "root"), true
		}
	}
	return "", false
}

// is compares a mapping with a line of proc_pid_maps(5). The path there can begin with what is above the process's root.
func (o owner) is(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return false
	}
	first, last, _ := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(first, 16, 64)
	end, err2 := strconv.ParseUint(last, 16, 64)
	if err1 != nil || err2 != nil || o.start < start || o.start >= end || !strings.Contains(fields[1], "x") {
		return false
	}
	if o.path == "" {
		return fields[4] == "0"
	}
	_, path, _ := strings.Cut(line, "/")
	return strings.HasSuffix("/"+strings.TrimSuffix(path, " (deleted)"), o.path)
}

// innermostPID is the process's ID in its own PID namespace; 0 if it cannot be known. NStgid: Linux 4.1.
func (o owner) innermostPID() int32 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(o.pid)), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if ids, is := strings.CutPrefix(line, "NStgid:"); is {
			all := strings.Fields(ids)
			if len(all) == 0 {
				return 0
			}
			id, _ := strconv.ParseInt(all[len(all)-1], 10, 32) // 0 if it is none
			return int32(id)
		}
	}
	return 0
}
