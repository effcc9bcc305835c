package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// ProcessesOf returns the IDs of the processes that a user has now, ascending. The user is given by name or ID. Processes count by their effective user ID, as
// with perf. It is an error if there are none.
func ProcessesOf(name string) ([]int, error) { return processesOf("/proc", name) }

func processesOf(proc, name string) (pids []int, err error) {
	uid := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		found, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("look up the user %q: %w", name, err)
		}
		uid = found.Uid
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list the processes of the user %s: %w", name, err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join(proc, e.Name(), "status"))
		if err == nil && effectiveUser(status) == uid { // otherwise it has ended
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	if len(pids) == 0 {
		return nil, fmt.Errorf("the user %s: %w", name, errNoProcesses)
	}
	return pids, nil
}

var errNoProcesses = errors.New("has no processes")

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
