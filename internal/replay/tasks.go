package replay

import (
	"cmp"
	"iter"
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// Task is a thread of a recording, also one that had ended.
type Task struct {
	Thread
	Parent int32 // ID of the thread that created it; -1 if unknown

	maps *addressSpace
}

// TaskMapping is a mapping of a task, as in /proc/PID/maps.
type TaskMapping struct {
	Start, End uint64 // addresses; End is exclusive
	Offset     uint64 // file offset of Start
	Protection uint32 // PROT_…
	Flags      uint32 // MAP_…
	Inode      uint64 // 0 if the recording has a build ID instead
	BuildID    string // in hexadecimal
	Path       string
}

// Tasks reads the recording once and returns its threads in the order of their IDs, each with its last state. Of threads with the same ID it
// returns the last one. It reads no symbols.
func (r *Replay) Tasks() ([]Task, error) {
	r.machine.thread(0, 0) // as in perf, the idle task is always there
	var failed error
	for batch, broken := range r.reader.Batches() {
		for i := range batch {
			if s, ok := batch[i].Value.(*perfdata.Sample); ok {
				r.machine.thread(sampleThread(s))
				continue
			}
			r.machine.apply(&batch[i])
		}
		failed = broken
	}
	var tasks []Task
	for id, t := range r.machine.threads {
		if id == -1 { // samples without a thread
			continue
		}
		tasks = append(tasks, Task{t.Thread, t.parent, t.process.maps})
	}
	slices.SortFunc(tasks, func(a, b Task) int { return cmp.Compare(a.TID, b.TID) })
	return tasks, failed
}

// Mappings returns the mappings of a task by address. As in perf, they include what execve(2) replaced last, where nothing was mapped after it.
func (t *Task) Mappings() iter.Seq[TaskMapping] {
	return func(yield func(TaskMapping) bool) {
		for _, m := range t.maps.list {
			if !yield(TaskMapping{m.Start, m.End, m.Offset, m.protection, m.flags, m.DSO.key.inode, m.DSO.HexBuildID(), m.DSO.Path}) {
				return
			}
		}
	}
}
