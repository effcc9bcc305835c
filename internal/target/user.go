package target

import (
	"bytes"
	"fmt"
	"io/fs"
	"os/user"
	"slices"
	"strconv"
)

// processesOf returns the IDs of the processes that a user has now, ascending.
func processesOf(root fs.FS, name string) (pids []int, err error) {
	uid := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		found, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("look up the user %q: %w", name, err)
		}
		uid = found.Uid
	}
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes of the user %s: %w", name, err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/status", pid))
		if err == nil && effectiveUser(status) == uid { // otherwise it has ended
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// effectiveUser is the second number of the line Uid of proc_pid_status(5).
func effectiveUser(status []byte) string {
	for line := range bytes.Lines(status) {
		if rest, is := bytes.CutPrefix(line, []byte("Uid:")); is {
			if ids := bytes.Fields(rest); len(ids) == 4 {
				return string(ids[1])
			}
		}
	}
	return ""
}
