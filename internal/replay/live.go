package replay

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/symbol/object"
)

// owner is a process that had something mapped. While it lives, and it is still mapped there, its files can be had as it sees them.
type owner struct {
	pid   int32
	start uint64 // of the mapping
	path  string // of the file; empty for memory without one
}

// place is where a living process has something mapped.
type place struct {
	root   string // the process's root directory as this process sees it
	mapped string // object.MappedFile
}

// find returns false if the process is gone, or if another process has its ID by now, perhaps because the recording is of another machine: such
// a process does not have the same mapping.
func (o owner) find() (place, bool) {
	proc := filepath.Join("/proc", strconv.Itoa(int(o.pid)))
	maps, err := os.Open(filepath.Join(proc, "maps"))
	if err != nil {
		return place{}, false
	}
	defer func() { _ = maps.Close() }() // it is only read
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if start, end, is := o.is(lines.Text()); is {
			return place{
				root:   filepath.Join(proc, "root"),
				mapped: object.MappedFile(o.pid, start, end),
			}, true
		}
	}
	return place{}, false
}

// is compares a mapping with a line of proc_pid_maps(5), and returns the addresses there. The path there can begin with what is above the process's root.
func (o owner) is(line string) (start, end uint64, is bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return 0, 0, false
	}
	first, last, _ := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(first, 16, 64)
	end, err2 := strconv.ParseUint(last, 16, 64)
	if err1 != nil || err2 != nil || o.start < start || o.start >= end || !strings.Contains(fields[1], "x") {
		return 0, 0, false
	}
	if o.path == "" {
		return start, end, fields[4] == "0"
	}
	_, path, _ := strings.Cut(line, "/")
	return start, end, strings.HasSuffix("/"+withoutDeleted(path), withoutDeleted(o.path))
}

// withoutDeleted removes what the kernel appends to the path of a file that was deleted.
func withoutDeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }

// status is what /proc/PID/status says of a process.
type status struct {
	innermostPID int32 // in its own PID namespace; 0 if it cannot be known
	user         int   // effective; 0 if it cannot be known
}

// status reads /proc/PID/status (proc_pid_status(5)). NStgid: Linux 4.1.
func (o owner) status() (s status) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(o.pid)), "status"))
	if err != nil {
		return status{}
	}
	for line := range strings.Lines(string(text)) {
		name, values, _ := strings.Cut(line, ":")
		switch all := strings.Fields(values); {
		case name == "Uid" && len(all) > 1:
			s.user, _ = strconv.Atoi(all[1]) // 0 if it is no number
		case name == "NStgid" && len(all) > 0:
			id, _ := strconv.ParseInt(all[len(all)-1], 10, 32)
			s.innermostPID = int32(id)
		}
	}
	return s
}
