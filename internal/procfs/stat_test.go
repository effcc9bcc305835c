package procfs

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStat(t *testing.T) {
	const ms = time.Millisecond
	read := func(text string) (Stat, error) { return ReadStat(fstest.MapFS{"stat": {Data: []byte(text)}}) }
	got, err := read("cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8\ncpu12 0 0 0 0 0 0 0 1 0 0\nintr 5 6 7\nctxt 18446744073709551615\nbtime 1\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Stat{
		All: CPUTimes{100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms, 600 * ms, 700 * ms, 800 * ms},
		CPUs: map[int]CPUTimes{
			0:  {10 * ms, 20 * ms, 30 * ms, 40 * ms, 50 * ms, 60 * ms, 70 * ms, 80 * ms},
			12: {Steal: 10 * ms},
		},
		Switches: 1<<64 - 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"cpu  1 2 3 4 5 6 7 8\n":                "/proc/stat has no context switches (ctxt)",
		"cpu  1 2 3 4 5 6 7\nctxt 1\n":          "/proc/stat: a line of CPU times is cut short",
		"cpu  1 2 3 4 5 6 7 -8\nctxt 1\n":       `/proc/stat: "-8" is not a number of clock ticks`,
		"cpufreq 1 2 3 4 5 6 7 8\nctxt 1\n":     `/proc/stat: "cpufreq" is not a CPU`,
		"cpu  1 2 3 4 5 6 7 8\nctxt switches\n": `/proc/stat: context switches: strconv.ParseUint: parsing "switches": invalid syntax`,
	} {
		if got, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, error %v, want %s", text, got, err, want)
		}
	}
}

func TestTaskStat(t *testing.T) {
	proc := fstest.MapFS{
		"7/stat":        {Data: []byte("7 (a) Z b) S 1 7 7 0 -1 4194560 10 0 0 0 1 2 3 4 20 0 1 0\n")},
		"7/task/8/stat": {Data: []byte("8 (a) Z 1 7 7 0 -1 4194560 10 0 0 0 1 x 3 4 20 0 1 0\n")},
		"9/stat":        {Data: []byte("9 (a) X 1")},
	}
	got, err := ReadTaskStat(proc, "7")
	const ms = time.Millisecond
	if want := (TaskStat{'S', 10 * ms, 20 * ms, 30 * ms, 40 * ms}); got != want || got.Ended() || err != nil {
		t.Errorf("%+v, error %v, want %+v", got, err, want)
	}
	for task, want := range map[string]string{
		"7/task/8": `/proc/7/task/8/stat: "x" is not a number of clock ticks`,
		"9":        "/proc/9/stat is cut short",
		"10":       "read /proc/10/stat: file does not exist",
	} {
		if got, err := ReadTaskStat(proc, task); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, error %v, want %s", task, got, err, want)
		}
	}
	for state, want := range map[byte]bool{'R': false, 'S': false, 'D': false, 'T': false, 'Z': true, 'X': true} {
		if s := (TaskStat{State: state}); s.Ended() != want {
			t.Errorf("state %c: ended is %v", state, !want)
		}
	}
}

// TestOwnStat reads the files of the running kernel.
func TestOwnStat(t *testing.T) {
	proc := os.DirFS("/proc")
	s, err := ReadStat(proc)
	if err != nil || s.All.Idle == 0 || len(s.CPUs) == 0 || s.Switches == 0 {
		t.Errorf("%+v, error %v", s, err)
	}
	task, err := ReadTaskStat(proc, "self")
	if err != nil || task.Ended() {
		t.Errorf("%+v, error %v", task, err)
	}
	if cpus, err := OnlineCPUs(); err != nil || len(cpus) == 0 {
		t.Errorf("CPUs %v are online, error %v", cpus, err)
	}
}
