package procfs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Status is the text of /proc/PID/status (proc_pid_status(5)).
type Status string

// ReadStatus reads the status of a process or thread: "self", "thread-self" or its ID. The error is fs.ErrNotExist or ESRCH if the task has
// ended.
func ReadStatus(proc fs.FS, task string) (Status, error) {
	text, err := read(proc, "/proc", path.Join(task, "status"))
	return Status(text), err
}

// Field returns the values of a line, without the blanks around them. It returns "" if there is no such line.
func (s Status) Field(name string) string {
	value, _ := s.find(name)
	return value
}

// Need is like Field, but fails if there is no such line.
func (s Status) Need(name string) (string, error) {
	value, ok := s.find(name)
	if !ok {
		return "", fmt.Errorf("has no line %s", name)
	}
	return value, nil
}

func (s Status) find(name string) (value string, ok bool) {
	text, key := string(s), name+":"
	if !strings.HasPrefix(text, key) {
		key = "\n" + key
	}
	_, after, ok := strings.Cut(text, key)
	value, _, _ = strings.Cut(after, "\n")
	return strings.TrimSpace(value), ok
}
