package top

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
)

// ExamineProcess returns a description of a process or thread (https://docs.kernel.org/filesystems/proc.html). It is an error if it has
// ended.
func ExamineProcess(id uint64) (string, error) {
	if id == process.Elsewhere {
		return "These processes are in PID namespaces that this one does not see.\n", nil
	}
	return examineProcess("/proc", int(id))
}

func examineProcess(proc string, pid int) (string, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	status, err := procfs.ReadStatus(os.DirFS(proc), strconv.Itoa(pid))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(title, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", title, printable.Text(value))
		}
	}
	command, _ := os.ReadFile(dir + "/cmdline") // empty for kernel threads and for ending processes
	line("command", string(bytes.TrimSpace(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))))
	executable, _ := os.Readlink(dir + "/exe") // the link may be hidden
	line("executable", executable)
	for _, key := range []string{"State", "Tgid", "PPid", "Uid", "Threads", "VmRSS", "Cpus_allowed_list", "voluntary_ctxt_switches",
		"nonvoluntary_ctxt_switches"} {
		line(key, strings.Join(strings.Fields(status.Field(key)), " "))
	}
	groups, _ := os.ReadFile(dir + "/cgroup")
	for group := range strings.Lines(string(groups)) {
		line("cgroup", strings.TrimSpace(group))
	}
	programs, _ := bpfprog.Held(proc, pid) // its files may be hidden
	for _, id := range programs {
		line("holds", fmt.Sprint("BPF program ", id))
	}
	return b.String(), nil
}

// ExamineCgroup returns a list of the processes in a cgroup v2, without those of its children. It is an error if the cgroup was removed.
func ExamineCgroup(id uint64) (string, error) {
	name, dir, ok := bpfprog.CgroupName(id)
	if !ok {
		return "", fmt.Errorf("cgroup %d was removed", id)
	}
	return examineCgroup("/proc", name, dir)
}

func examineCgroup(proc, name, dir string) (string, error) {
	list, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil {
		return "", fmt.Errorf("read the processes of cgroup %s: %w", name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cgroup %s\n", printable.Text(name))
	pids := strings.Fields(string(list))
	fmt.Fprintf(&b, "%d processes\n", len(pids))
	for _, pid := range pids {
		comm, err := procfs.Comm(os.DirFS(proc), pid)
		if err != nil { // it has ended
			continue
		}
		fmt.Fprintf(&b, "%7s  %s\n", pid, printable.Text(comm))
	}
	return b.String(), nil
}
