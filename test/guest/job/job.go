// Package job defines the messages between the runner and the init of its guests.
package job

import (
	"encoding/json"
	"fmt"
	"io"
)

// File is the file in the guest with init's Job, as JSON.
const File = "/job.json"

// Job is the work of a guest.
type Job struct {
	Output   string   // device for the commands' output
	Status   string   // device for the Status
	Modules  []string // files of the kernel modules to load, in this order; with them there is a network interface
	Env      map[string]string
	Commands []Command // run one after another
}

// Command is a program to run.
type Command struct {
	Package string   // the package of a test binary; empty for other commands
	Args    []string // the program, which is searched in PATH if it has no slash, and its arguments
	Dir     string   // working directory
}

// Status is the result of a Job.
type Status struct {
	Exit int // status of the last command that failed, or 0; 128 + N for signal N
}

// Write writes the status. A guest does it last.
func (s Status) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(s)
}

// ReadStatus reads the status that Write has written. The error is io.EOF if the guest ended without a status.
func ReadStatus(r io.Reader) (Status, error) {
	var s Status
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return s, fmt.Errorf("read the guest's status: %w", err)
	}
	return s, nil
}
