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
}

// Body is what the loop does each time.
type Body int

// What loops can do.
const (
	Spin    Body = iota // nothing
	GetPPID             // the system call getppid
	Touch               // the first write to a page; at most MaxPages times
	Sleep               // block for a millisecond
)

// MaxPages is how many pages there are to touch: less than a huge page, so that each costs a fault of its own.
const MaxPages = 256

// Instructions is how many instructions a Spin executes in user mode: two each time, which every loop needs.
func (p Program) Instructions() uint64 {
	return startInstructions + 2*p.Times + exitInstructions
}

// Write writes the executable, for the architecture that this process runs on, and returns its name.
func (p Program) Write(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, p.elf(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
