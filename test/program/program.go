// Package program makes executables that do a known number of something and hardly anything else: static ELF files of
// a few instructions, without a runtime or a libc, so that what they do can be counted to the last one.
package program

import (
	"os"
	"path/filepath"
	"testing"
)

// Program is a loop, and an exit.
type Program struct {
	Body  Body
	Times uint64 // that the body is run; at least 1
	Exit  uint8  // status

	Wait    bool   // first for a byte, or the end, of standard input
	Tasks   uint16 // that it starts, which do the same, before the first one runs the loop itself
	Threads bool   // the tasks are threads; otherwise they are processes, and waited for at the end
}

// Body is what the loop does each time.
type Body int

// What loops can do.
const (
	Spin    Body = iota // nothing
	GetPPID             // the system call getppid
	GetSID              // the system call getsid
	Touch               // the first write to a page; at most MaxPages times
	Sleep               // block for a millisecond
)

// MaxPages is how many pages there are to touch: less than a huge page, so that each costs a fault of its own.
const MaxPages = 256

// Instructions is how many instructions a Spin and its tasks execute in user mode.
func (p Program) Instructions() uint64 {
	start := uint64(startInstructions)
	if p.Wait {
		start += waitInstructions
	}
	return start + p.InstructionsAfterWait()
}

// InstructionsAfterWait is how many of them a Spin executes when it has waited: two each time, which every loop needs.
func (p Program) InstructionsAfterWait() uint64 {
	tasks := uint64(p.Tasks)
	all := (1 + tasks) * (2*p.Times + exitInstructions)
	if tasks == 0 {
		return all
	}
	reaps := 1 + tasks // each finds that there is no child
	if !p.Threads {
		reaps += tasks
	}
	return all + countInstructions + tasks*(startTaskInstructions+taskInstructions) + reaps*reapInstructions
}

// Write writes the executable, for the architecture that this process runs on, and returns its name.
func (p Program) Write(t testing.TB) string {
	t.Helper()
	return p.WriteAs(t, "program")
}

// WriteAs is Write with another name, for tests that find the program among all of the machine: tests of other packages run theirs meanwhile.
func (p Program) WriteAs(t testing.TB, name string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, p.elf(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
