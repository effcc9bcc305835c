// Package program makes executables that cause a known number of events and hardly anything else. They are static ELF files of a few
// instructions, without a runtime or a libc, so that tests can check counts exactly.
package program

import (
	"os"
	"path/filepath"
	"testing"
)

// Program is a program that runs a loop and exits.
type Program struct {
	Body  Body
	Times uint64 // how many times the loop runs; at least 1
	Exit  uint8  // exit status

	Wait    bool   // first wait for a byte, or the end, of standard input
	Tasks   uint16 // number of tasks to start, which run the loop, too, before the first task runs it
	Threads bool   // the tasks are threads; otherwise they are processes, and the first task waits for their end
}

// Body is the body of the loop.
type Body int

// The bodies.
const (
	Spin    Body = iota // nothing
	GetPPID             // the system call getppid
	GetSID              // the system call getsid
	Touch               // the first write to a page; at most MaxPages times
	Sleep               // block for a millisecond
	Yield               // let another task of the same priority run: the system call sched_yield
)

// MaxPages is the number of pages that Touch can touch. They are less than a huge page, so that each page causes a separate fault.
const MaxPages = 256

// Instructions returns the number of instructions that a Spin and its tasks execute in user mode.
func (p Program) Instructions() uint64 {
	start := uint64(startInstructions)
	if p.Wait {
		start += waitInstructions
	}
	return start + p.InstructionsAfterWait()
}

// InstructionsAfterWait returns the number of these instructions that come after the wait. A Spin has two in each round, which every loop
// needs.
func (p Program) InstructionsAfterWait() uint64 {
	tasks := uint64(p.Tasks)
	all := (1 + tasks) * (2*p.Times + exitInstructions)
	if tasks == 0 {
		return all
	}
	reaps := 1 + tasks // each task finds once that it has no child
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

// WriteAs is like Write but sets the file's name. It is for tests that search the whole machine for the program while tests of other
// packages run programs, too.
func (p Program) WriteAs(t testing.TB, name string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, p.elf(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
