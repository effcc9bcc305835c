package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"syscall"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
)

// mappingIndent is the indentation of the mappings of a task at level 0, in characters.
const mappingIndent = 32

// maxTaskIndent limits the indentation of tasks, because a recording can contain a long chain of parents.
const maxTaskIndent = 100

// printTasks prints perf's tree of tasks: each below the one that created it. With mappings, the memory map of each follows.
func printTasks(w io.Writer, tasks []replay.Task, mappings bool) {
	fmt.Fprintf(w, "# %8s %8s %8s  %s\n", "pid", "tid", "ppid", "comm")
	printer := &taskPrinter{w: w, mappings: mappings, below: map[int32][]*replay.Task{}, known: map[int32]bool{}, printed: map[int32]bool{}}
	for i := range tasks {
		t := &tasks[i]
		printer.known[t.TID] = true
		printer.below[t.Parent] = append(printer.below[t.Parent], t)
	}
	for i := range tasks {
		if !printer.known[tasks[i].Parent] {
			printer.print(&tasks[i])
		}
	}
	for i := range tasks { // only a broken recording has tasks that are their own ancestors
		printer.print(&tasks[i])
	}
}

// taskPrinter prints a tree of tasks.
type taskPrinter struct {
	w        io.Writer
	mappings bool
	below    map[int32][]*replay.Task // by their parent
	known    map[int32]bool           // IDs of all tasks
	printed  map[int32]bool
}

// print prints a task and those below it, unless they are printed already.
func (p *taskPrinter) print(root *replay.Task) {
	type step struct {
		*replay.Task
		level int
	}
	steps := []step{{root, 1}}
	if root.TID == 0 {
		steps[0].level = 0
	}
	for len(steps) > 0 {
		next := steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		if p.printed[next.TID] {
			continue
		}
		p.printed[next.TID] = true
		p.printTask(next.Task, next.level)
		for _, t := range slices.Backward(p.below[next.TID]) {
			steps = append(steps, step{t, min(next.level+1, maxTaskIndent)})
		}
	}
}

func (p *taskPrinter) printTask(t *replay.Task, level int) {
	fmt.Fprintf(p.w, "%10d %8d %8d |%*s%s\n", t.PID, t.TID, t.Parent, level, "", printable.Text(t.Comm))
	if !p.mappings {
		return
	}
	for m := range t.Mappings() {
		id := m.BuildID
		if m.Inode != 0 || id == "" {
			id = strconv.FormatUint(m.Inode, 10)
		}
		fmt.Fprintf(p.w, "%*s%x-%x %s %08x %s %s\n", mappingIndent+level, "", m.Start, m.End, permissions(m), m.Offset, id, printable.Text(m.Path))
	}
}

// permissions returns the protection of a mapping, and whether it is shared, as /proc/PID/maps shows them.
func permissions(m replay.TaskMapping) string {
	letters := []byte("---p")
	for i, bit := range []uint32{syscall.PROT_READ, syscall.PROT_WRITE, syscall.PROT_EXEC} {
		if m.Protection&bit != 0 {
			letters[i] = "rwx"[i]
		}
	}
	if m.Flags&syscall.MAP_SHARED != 0 {
		letters[3] = 's'
	}
	return string(letters)
}
