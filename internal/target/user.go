package target

import (
	"fmt"
	"io/fs"
	"os/user"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
)

// processesOf returns the IDs of the processes that a user has now, ascending. The name is a user's name or ID.
func processesOf(root fs.FS, name string) (pids []int, err error) {
	uid := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		found, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("look up the user %q: %w", name, err)
		}
		uid = found.Uid
	}
	proc := procfs.Proc(root)
	all, err := procfs.Processes(proc)
	if err != nil {
		return nil, fmt.Errorf("list the processes of the user %s: %w", name, err)
	}
	for _, pid := range all {
		status, err := procfs.ReadStatus(proc, strconv.Itoa(pid))
		if users := strings.Fields(status.Field("Uid")); err == nil && len(users) == 4 && users[1] == uid { // the effective ID; on an error the process has ended
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
