package target

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Alive reports whether one of the processes and threads still runs. A process whose first thread
// has ended runs as long as another one does; one that only waits to be reaped does not.
func (s Spec) Alive() bool { return s.alive(os.DirFS("/")) }

func (s Spec) alive(root fs.FS) bool {
	for _, tid := range s.TIDs {
		if runs(root, fmt.Sprintf("proc/%d/task/%d", tid, tid)) {
			return true
		}
	}
	for _, pid := range s.PIDs {
		dir := fmt.Sprintf("proc/%d", pid)
		if runs(root, dir) {
			return true
		}
		tasks, _ := fs.ReadDir(root, dir+"/task") // none of a process that is gone
		for _, task := range tasks {
			if runs(root, dir+"/task/"+task.Name()) {
				return true
			}
		}
	}
	return s.System
}

// runs reports whether the task of this directory of /proc is neither gone nor a zombie: the state is the
// field behind the name, which is in parentheses (proc_pid_stat(5)).
func runs(root fs.FS, dir string) bool {
	stat, err := fs.ReadFile(root, dir+"/stat")
	if err != nil {
		return false
	}
	end := strings.LastIndexByte(string(stat), ')')
	fields := strings.Fields(string(stat[end+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}
