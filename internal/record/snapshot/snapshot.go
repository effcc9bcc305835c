// Package snapshot writes what exists when a recording begins as the records that the kernel would have written: processes, their threads and
// mappings, the kernel's text, modules, BPF programs and cgroups.
package snapshot

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Emit takes a record. The record is valid during the call.
type Emit func(misc perfdata.Misc, v perfdata.Value) error

// Snapshot reads /proc and emits records.
type Snapshot struct {
	Data       bool // mappings that are not executable, too
	Namespaces bool // of processes
	NoMaps     bool // no mappings of processes
	// BuildID returns the build ID of a file that a process has mapped; nil for records with device and inode.
	BuildID   func(name string, pid int32) []byte
	Processes int // number of processes emitted

	proc  string // where /proc is mounted
	emit  Emit
	buf   []byte
	names map[string]string // of mappings
	ids   map[string][]byte // build IDs by name of the mapping
}

// New returns a Snapshot of the machine whose /proc is mounted on proc.
func New(proc string, emit Emit) *Snapshot {
	return &Snapshot{proc: proc, emit: emit, buf: make([]byte, 64<<10), names: make(map[string]string), ids: make(map[string][]byte)}
}

// AllProcesses emits all processes.
func (s *Snapshot) AllProcesses() error {
	pids, err := procfs.Processes(os.DirFS(s.proc))
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		if err := s.Process(int32(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Process emits a process: its parent, name, threads and mappings. A process that has ended or is hidden is skipped.
func (s *Snapshot) Process(pid int32) error {
	dir := fmt.Sprintf("%s/%d", s.proc, pid)
	status, err := s.status(dir)
	if err != nil {
		return nil // it has ended, or is hidden
	}
	s.Processes++
	if err := s.task(status.parent, status.parent, pid, pid, status.comm); err != nil {
		return err
	}
	if s.Namespaces {
		if err := s.namespacesOf(dir, pid); err != nil {
			return err
		}
	}
	if status.threads != 1 {
		if err := s.threads(pid); err != nil {
			return err
		}
	}
	if status.kernel || s.NoMaps {
		return nil
	}
	return s.maps(dir, pid)
}

// threads emits the threads of a process except the first.
func (s *Snapshot) threads(pid int32) error {
	proc := os.DirFS(s.proc)
	tids, err := procfs.Threads(proc, int(pid))
	if err != nil {
		return nil // it has ended
	}
	for _, tid := range tids {
		if tid == int(pid) {
			continue
		}
		comm, err := procfs.Comm(proc, fmt.Sprintf("%d/task/%d", pid, tid))
		if err != nil {
			continue
		}
		if err := s.task(pid, pid, pid, int32(tid), comm); err != nil {
			return err
		}
	}
	return nil
}

// maxComm is the longest name of a thread in the kernel: TASK_COMM_LEN without the NUL. For kernel workers, /proc appends what they last did.
const maxComm = 15

// task emits the records of a thread that starts and gets its name.
func (s *Snapshot) task(parentPID, parentTID, pid, tid int32, comm string) error {
	fork := &perfdata.Fork{PID: pid, TID: tid, ParentPID: parentPID, ParentTID: parentTID, Exec: true}
	if err := s.emit(0, fork); err != nil {
		return err
	}
	return s.emit(0, &perfdata.Comm{PID: pid, TID: tid, Comm: comm[:min(len(comm), maxComm)]})
}
