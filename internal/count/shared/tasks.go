package shared

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// claim puts the target's tasks or cgroups into nodes of a session.
func (b *book) claim(s session, p *plan) error {
	var err error
	if len(p.target.Cgroups) > 0 {
		err = b.claimCgroups(s, p.target.Cgroups)
	} else {
		err = b.claimTasks(s, p)
	}
	if err != nil {
		return err
	}
	return b.syncAll()
}

// claimTasks moves each thread of the target to a new node below its current one.
func (b *book) claimTasks(s session, p *plan) error {
	found, err := b.o.findTasks()
	if err != nil {
		return fmt.Errorf("find the target's threads: %w", err)
	}
	type origin struct{ above, unit uint32 }
	made := make(map[origin]uint32)
	claims := make(map[uint64]uint32)
	for i, thread := range p.target.Threads {
		task, lives := found[uint32(thread.TID)]
		if !lives {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", thread.TID)); err == nil {
				return fmt.Errorf("count thread %d (%s): the kernel does not show it to BPF programs. Count it without --bpf-counters",
					thread.TID, thread.Comm)
			}
			continue
		}
		if task.exits {
			continue
		}
		from := origin{}
		if p.options.PerThread {
			from.unit = uint32(i)
		}
		if from.above, err = b.o.nodeOf(task.address); err != nil {
			return err
		}
		from.above = b.nodes.live(from.above)
		id, ok := made[from]
		if !ok {
			id, err = b.nodes.addTasks(s, from.unit, from.above, p.options.Inherit, p.options.EnableOnExec, b.now)
			if err != nil {
				return err
			}
			made[from] = id
		}
		claims[task.address] = id
	}
	if len(claims) == 0 {
		return errors.New("all processes and threads that were to be measured have ended")
	}
	b.nodes.settle(b.live, b.now)
	if err := b.write(); err != nil {
		return err
	}
	for task, id := range claims {
		if err := b.o.putTask(task, id); err != nil {
			return err
		}
	}
	return b.o.unclaimEnded(claims)
}

// unclaimEnded removes tasks that ended while claimTasks put them into nodes. Nothing else would remove them, and another task may get
// the same address.
func (o *objects) unclaimEnded(claims map[uint64]uint32) error {
	found, err := o.findTasks()
	if err != nil {
		return fmt.Errorf("find the target's threads again: %w", err)
	}
	for _, task := range found {
		if !task.exits {
			delete(claims, task.address)
		}
	}
	for task := range claims {
		if err := o.putTask(task, 0); err != nil {
			return err
		}
	}
	return nil
}

// putTask puts a task into a node, 0 for none.
func (o *objects) putTask(task uint64, id uint32) error {
	full, err := o.runMoveTask(task, uint64(id), 0, 0)
	if err == nil && full {
		return fmt.Errorf("no room is left: all sessions together can count %d tasks at a time", o.maps[countersMapTasks].MaxEntries())
	}
	return err
}

// moveTask moves a task to another node, 0 for none, if it is still in the node from.
func (o *objects) moveTask(task uint64, from, to uint32) error {
	_, err := o.runMoveTask(task, uint64(to), 1, uint64(from))
	return err
}

func (o *objects) runMoveTask(args ...uint64) (full bool, err error) {
	result, err := o.programs[countersProgMoveTask].Run(&ebpf.RunOptions{Context: args})
	if err != nil {
		return false, fmt.Errorf("put a task into a node: %w", err)
	}
	return result != 0, nil
}

// exited is the bit in a task's node number that marks a task as exited: it counts no more.
const exited = 1 << 31

// nodeOf returns the node that a task is in, 0 for none.
func (o *objects) nodeOf(task uint64) (id uint32, err error) {
	err = o.maps[countersMapTasks].Lookup(task, &id)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, nil
	}
	return id &^ exited, err
}

// foundTask is a task that the program find has found.
type foundTask struct {
	address uint64
	exits   bool // or has exited
}

// findTasks returns the tasks of the machine by their thread IDs in this process's PID namespace.
func (o *objects) findTasks() (map[uint32]foundTask, error) {
	iter, err := link.AttachIter(link.IterOptions{Program: o.programs[countersProgFind]})
	if err != nil {
		return nil, err
	}
	defer iter.Close()
	r, err := iter.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	records, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	tasks := make(map[uint32]foundTask)
	const size = int(unsafe.Sizeof(countersFound{}))
	for ; len(records) >= size; records = records[size:] {
		tid, exits := binary.NativeEndian.Uint32(records[8:]), binary.NativeEndian.Uint32(records[12:])
		tasks[tid] = foundTask{binary.NativeEndian.Uint64(records), exits != 0}
	}
	return tasks, nil
}
