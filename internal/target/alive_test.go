package target

import (
	"os/exec"
	"testing"
	"testing/fstest"
	"time"
)

func TestAlive(t *testing.T) {
	stat := func(state string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("7 (a) Z b) " + state + " 1 7 7 0 -1 4194560 10 0 0 0 1 1 0 0 20 0 1 0\n")}
	}
	proc := fstest.MapFS{
		"proc/7/stat": stat("S"), "proc/7/task/7/stat": stat("S"),
		"proc/8/stat": stat("Z"), "proc/8/task/8/stat": stat("Z"), // a zombie
		"proc/9/stat": stat("Z"), "proc/9/task/9/stat": stat("Z"), "proc/9/task/10/stat": stat("R"), // its first thread ended
		"proc/10/stat": stat("R"), "proc/10/task/10/stat": stat("R"),
	}
	tests := []struct {
		name string
		spec Spec
		want bool
	}{
		{"a process", Spec{PIDs: []int{7}}, true},
		{"a zombie", Spec{PIDs: []int{8}}, false},
		{"a process without its first thread", Spec{PIDs: []int{9}}, true},
		{"nobody", Spec{PIDs: []int{11}}, false},
		{"one of two", Spec{PIDs: []int{8, 7}}, true},
		{"a thread", Spec{TIDs: []int{10}}, true},
		{"a thread that ended", Spec{TIDs: []int{9}}, false},
		{"all threads", Spec{System: true, Threads: true}, true},
	}
	for _, tt := range tests {
		if got := tt.spec.alive(proc); got != tt.want {
			t.Errorf("%s: alive = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestResolveAllThreads(t *testing.T) {
	comm := &fstest.MapFile{Data: []byte("x\n")}
	proc := fstest.MapFS{
		"proc/7/comm": comm, "proc/7/task/7/comm": comm, "proc/7/task/8/comm": comm,
		"proc/9/cmdline": comm, // ended while it was listed
		"proc/12/comm":   comm, "proc/12/task/12/comm": comm,
		"proc/sys/kernel/thing": comm,
	}
	got, err := Spec{System: true, Threads: true}.resolve(proc)
	if err != nil {
		t.Fatal(err)
	}
	want := Target{Threads: []Thread{{7, 7, "x"}, {8, 7, "x"}, {12, 12, "x"}}}
	if !got.SameThreads(want) || len(got.CPUs) > 0 {
		t.Errorf("resolved %+v, want %+v", got, want)
	}
}

// TestWatch watches processes of each kind until the last of them has ended.
func TestWatch(t *testing.T) {
	first, second := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	for name, s := range map[string]Spec{
		"processes":               {PIDs: []int{first.Process.Pid, second.Process.Pid}},
		"threads":                 {TIDs: []int{second.Process.Pid, first.Process.Pid}},
		"one, and one that ended": {PIDs: []int{first.Process.Pid, 1 << 22}, TIDs: []int{1 << 22}},
	} {
		t.Run(name, func(t *testing.T) {
			ended, stop := s.Watch()
			defer stop()
			select {
			case <-ended:
				t.Error("ended while they run")
			case <-time.After(time.Millisecond):
			}
		})
	}
	both, stop := Spec{PIDs: []int{first.Process.Pid}, TIDs: []int{second.Process.Pid}}.Watch()
	defer stop()
	stopped, stop := Spec{PIDs: []int{first.Process.Pid}}.Watch()
	stop()
	first.Process.Kill()
	select {
	case <-both:
		t.Error("ended while one of them runs")
	case <-time.After(time.Millisecond):
	}
	second.Process.Kill() // and not waited for: zombies have ended
	<-both
	select {
	case <-stopped:
		t.Error("ended after it was stopped")
	default:
	}
	if ended, _ := (Spec{System: true}).Watch(); ended != nil {
		t.Error("the system ends")
	}
}
