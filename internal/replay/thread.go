package replay

import "strconv"

// Thread is a thread as it is at the time of a record.
type Thread struct {
	PID, TID int32
	Comm     string // :TID if the recording does not tell
}

// process is a thread group.
type process struct {
	maps   *Maps
	dump   string         // the file in which a JIT compiler tells of its code
	jitted []timedMapping // code of that, which is not there yet, in the order of time
}

// thread is a task whose state is followed.
type thread struct {
	Thread
	process *process
	named   bool // Comm was told
}

// thread returns the thread of that ID, which is made if it is not known. Both can be -1, where a record does not tell.
func (m *machine) thread(pid, tid int32) *thread {
	t := m.last
	if t == nil || t.TID != tid {
		t = m.threads[tid]
	}
	if t == nil || pid != -1 && t.PID != pid {
		t = m.newThread(pid, tid)
	}
	m.last = t
	return t
}

func (m *machine) newThread(pid, tid int32) *thread {
	t := &thread{Thread: Thread{pid, tid, ":" + strconv.Itoa(int(tid))}}
	if tid == 0 {
		t.PID, t.Comm, t.named = 0, "swapper", true
	}
	m.threads[tid] = t
	if t.PID == tid || t.PID == -1 {
		t.process = &process{maps: &Maps{}}
	} else {
		t.process = m.thread(t.PID, t.PID).process
	}
	return t
}

// fork makes a thread of a process, or a process with what its parent has.
func (m *machine) fork(pid, tid, parentPID, parentTID int32, copyMaps bool) {
	if pid == parentPID && tid == parentTID {
		return // perf's own, of threads that were there before
	}
	parent := m.thread(parentPID, parentTID)
	m.last = nil
	t := m.newThread(pid, tid)
	if parent.named {
		t.Comm, t.named = parent.Comm, true
	}
	if pid != parentPID && copyMaps {
		t.process.maps = parent.process.maps.share()
	}
}

// rename gives a thread its name. One that executes something keeps its mappings until others are told in their place: samples that are taken
// in execve(2) meanwhile still have the callers of before.
func (m *machine) rename(pid, tid int32, comm string) {
	t := m.thread(pid, tid)
	t.Comm, t.named = comm, true
}
