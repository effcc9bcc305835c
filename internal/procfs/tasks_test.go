package procfs

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

func TestTasks(t *testing.T) {
	proc := fstest.MapFS{
		"7/comm": {Data: []byte("a b\n")}, "7/task/7/comm": {Data: []byte("a b\n")}, "7/task/10/comm": {Data: []byte("\n\n")}, "7/task/9/comm": {},
		"self/comm": {}, "-1/comm": {}, "4294967296/comm": {}, "version": {},
	}
	for task, want := range map[string]string{"7": "a b", "7/task/10": "\n", "7/task/9": ""} {
		if got, err := Comm(proc, task); got != want || err != nil {
			t.Errorf("%s is %q, error %v", task, got, err)
		}
	}
	if _, err := Comm(proc, "8"); !Ended(err) {
		t.Errorf("a process that is not there: error %v", err)
	}
	if got, err := Processes(proc); !slices.Equal(got, []int{7}) || err != nil {
		t.Errorf("processes %v, error %v", got, err)
	}
	if got, err := Threads(proc, 7); !slices.Equal(got, []int{7, 9, 10}) || err != nil {
		t.Errorf("threads %v, error %v", got, err)
	}
	if _, err := Threads(proc, 8); !Ended(err) {
		t.Errorf("threads of a process that is not there: error %v", err)
	}
}

// TestOwnTask reads the files of this process.
func TestOwnTask(t *testing.T) {
	proc := os.DirFS("/proc")
	name, err := Comm(proc, "self")
	if err != nil || name == "" || len(name) > 15 {
		t.Errorf("this process is %q, error %v", name, err)
	}
	threads, err := Threads(proc, os.Getpid())
	if !slices.Contains(threads, os.Getpid()) {
		t.Errorf("this process has threads %v, error %v", threads, err)
	}
	if of, err := Comm(proc, fmt.Sprintf("%d/task/%[1]d", os.Getpid())); of != name || err != nil {
		t.Errorf("its first thread is %q, error %v; want %q", of, err, name)
	}
}
