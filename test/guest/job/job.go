// Package job is what the runner and the init of its guests tell each other.
package job

import (
	"encoding/json"
	"fmt"
	"io"
)

// File is where init finds its Job, as JSON.
const File = "/job.json"

// Job is what a guest is booted for.
type Job struct {
	Output   string // device that gets what the commands print
	Status   string // device that gets the Status
	Env      map[string]string
	Commands []Command // run one after another
}

// Command is a program to run.
type Command struct {
	Package string   // of the test binary that it is, or empty
	Args    []string // the first is the program, looked up in PATH if it has no slash
	Dir     string   // where it runs
}

// Status is how it went.
type Status struct {
	Exit int // status of the last command that failed, or 0; 128 + N for signal N
}

// Write writes the status as the last thing a guest does.
func (s Status) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(s)
}

// ReadStatus reads what Write wrote. It fails with io.EOF when the guest ended without.
func ReadStatus(r io.Reader) (Status, error) {
	var s Status
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return s, fmt.Errorf("read the guest's status: %w", err)
	}
	return s, nil
}
