package record

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// emit takes a record of what was there before the recording.
type emit func(misc perfdata.Misc, v perfdata.Value) error

// synthesizer tells of what was there before the recording began: as records that the kernel would have left, had it been asked then.
type synthesizer struct {
	proc string // where /proc is mounted
	emit emit

	data       bool // memory that is not executable, too
	namespaces bool
	buf        []byte
	names      map[string]string // of mappings

	processes int // that were told of
}

func newSynthesizer(proc string, emit emit) *synthesizer {
	return &synthesizer{proc: proc, emit: emit, buf: make([]byte, 64<<10), names: make(map[string]string)}
}

// all tells of all processes.
func (s *synthesizer) all() error {
	pids, err := procfs.Processes(os.DirFS(s.proc))
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, pid := range pids {
		if err := s.process(int32(pid)); err != nil {
			return err
		}
	}
	return nil
}

// process tells of a process: where it came from, its threads, what it has mapped. One that has ended meanwhile is left out.
func (s *synthesizer) process(pid int32) error {
	dir := fmt.Sprintf("%s/%d", s.proc, pid)
	status, err := s.status(dir)
	if err != nil {
		return nil // it has ended, or is hidden
	}
	s.processes++
	if err := s.task(status.parent, status.parent, pid, pid, status.comm); err != nil {
		return err
	}
	if s.namespaces {
		if err := s.namespacesOf(dir, pid); err != nil {
			return err
		}
	}
	if status.threads != 1 {
		if err := s.threads(pid); err != nil {
			return err
		}
	}
	if status.kernel {
		return nil
	}
	return s.maps(dir, pid)
}

// threads tells of the threads of a process but the first.
func (s *synthesizer) threads(pid int32) error {
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

// maxComm is the size of a name in the kernel, without its NUL: TASK_COMM_LEN. /proc adds to those of kernel workers what they last did.
const maxComm = 15

// task is a thread that was made and got its name, as the kernel's records would tell it.
func (s *synthesizer) task(parentPID, parentTID, pid, tid int32, comm string) error {
	fork := &perfdata.Fork{PID: pid, TID: tid, ParentPID: parentPID, ParentTID: parentTID, Exec: true}
	if err := s.emit(0, fork); err != nil {
		return err
	}
	return s.emit(0, &perfdata.Comm{PID: pid, TID: tid, Comm: comm[:min(len(comm), maxComm)]})
}
