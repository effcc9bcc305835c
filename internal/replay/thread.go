package replay

import (
	"math"
	"strconv"

	"github.com/bperf/bperf/perfdata"
)

// Thread is a thread at the time of a record.
type Thread struct {
	PID, TID int32
	Comm     string // :TID if unknown
}

// process is a thread group.
type process struct {
	maps    *addressSpace
	runtime *jitRuntime
	dump    string         // file in which a JIT compiler describes its code
	jitted  []timedMapping // code in that file that is not mapped yet, by time
	taken   int64          // bytes taken from the allowance for that code
	threads int            // number of its threads that are followed
	execs   uint32         // number of its execs
}

// thread is a task whose state is followed.
type thread struct {
	Thread
	process *process
	named   bool                    // Comm is known
	parent  int32                   // thread that created it; -1 if unknown
	cgroups *perfdata.NamespaceLink // the cgroup namespace; nil if unknown
}

// cgroupNamespace is the index of the cgroup namespace in Namespaces.Links: CGROUP_NS_INDEX in include/uapi/linux/perf_event.h.
const cgroupNamespace = 6

// enter sets the namespaces of a thread.
func (m *machine) enter(v *perfdata.Namespaces) {
	if len(v.Links) > cgroupNamespace {
		link := v.Links[cgroupNamespace]
		m.thread(v.PID, v.TID).cgroups = &link
	}
}

// thread returns the thread with these IDs. It creates the thread if it is unknown. Both IDs are -1 if a record does not have them.
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
	t := &thread{Thread: Thread{pid, tid, ":" + strconv.Itoa(int(tid))}, parent: -1}
	if tid == 0 {
		t.PID, t.Comm, t.named = 0, "swapper", true
	}
	if old := m.threads[tid]; old != nil {
		old.process.threads--
	}
	m.threads[tid] = t
	if t.PID == tid || t.PID == -1 {
		t.process = &process{maps: &addressSpace{}, runtime: &jitRuntime{}}
	} else {
		t.process = m.thread(t.PID, t.PID).process
	}
	t.process.threads++
	return t
}

// fork creates a thread of a process, or a process with its parent's mappings.
func (m *machine) fork(pid, tid, parentPID, parentTID int32, copyMaps bool) {
	if pid == parentPID && tid == parentTID {
		return // perf writes it for threads that existed before
	}
	parent := m.thread(parentPID, parentTID)
	m.last = nil
	t := m.newThread(pid, tid)
	t.parent = parentTID
	if parent.named {
		t.Comm, t.named = parent.Comm, true
	}
	if pid != parentPID && copyMaps {
		t.process.maps, t.process.execs = parent.process.maps.share(), parent.process.execs
		t.process.runtime.how.Store(parent.process.runtime.how.Load())
	}
}

// rename sets the name of a thread. After an exec, the process keeps its old mappings where no new one replaces them, because samples in
// execve(2) still have the old callers. The next exec removes these mappings.
func (m *machine) rename(pid, tid int32, comm string, exec bool) {
	t := m.thread(pid, tid)
	t.Comm, t.named = comm, true
	if p := t.process; exec {
		p.maps = p.maps.remove(0, math.MaxUint64, func(of *mapping) bool { return of.execs < p.execs })
		p.execs++
		p.runtime.how.Store(nil)
	}
}

// exit marks a thread as ended. Samples of its last moments can follow.
func (m *machine) exit(tid int32) {
	if t := m.threads[tid]; t != nil && m.symbols.replay.options.Sums != nil {
		m.ended = append(m.ended, t)
	}
}

// forgetThreads drops the threads that had ended by the previous call. The first thread of a process stays as long as others do.
func (m *machine) forgetThreads() {
	m.last = nil
	endedBefore := m.endedBefore
	m.endedBefore, m.ended = m.ended, nil
	for _, t := range endedBefore {
		switch {
		case m.threads[t.TID] != t: // another thread has the ID by now
		case t.TID == t.PID && t.process.threads > 1:
			m.ended = append(m.ended, t)
		default:
			delete(m.threads, t.TID)
			t.process.threads--
			if t.process.threads == 0 {
				m.symbols.replay.options.Allowance.Give(t.process.taken)
			}
		}
	}
}

// forgetDSOs drops the files and the code that no followed process has mapped, and BPF programs that are unloaded.
func (m *machine) forgetDSOs() {
	used := map[*DSO]bool{m.image.dso: true}
	all := map[*addressSpace]bool{m.kernel: true}
	for _, t := range m.threads {
		all[t.process.maps] = true
	}
	for maps := range all {
		for _, mapping := range maps.list {
			used[mapping.DSO] = true
		}
	}
	for key, d := range m.byKey {
		if used[d] {
			continue
		}
		delete(m.byKey, key)
		d.close()
	}
	programs := map[uint32]bool{}
	for d := range used {
		if d != nil && d.Program != 0 {
			programs[d.Program] = true
		}
	}
	m.programs.forget(func(id uint32) bool { return programs[id] })
}
