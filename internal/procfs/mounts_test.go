package procfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestMounts(t *testing.T) {
	proc := fstest.MapFS{"12/mountinfo": {Data: []byte(`26 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 22 0:30 / /c rw shared:1 master:2 - cgroup cgroup rw,cpu,perf_event
31 22 0:31 / /a\040b\011c\134d\012e rw - cgroup2 cgroup2 rw
32 22 0:4 net:[4026532000] /run/netns/x\08 rw - nsfs nsfs rw
short
33 22 x:1 / /x rw - ext4 /dev/x rw
34 22 0:1 / /x rw - ext4
`)}}
	got, err := Mounts(proc, "12")
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{254, 0, "/", "/", "ext4", []string{"rw", "discard"}},
		{0, 30, "/", "/c", "cgroup", []string{"rw", "cpu", "perf_event"}},
		{0, 31, "/", "/a b\tc\\d\ne", "cgroup2", []string{"rw"}},
		{0, 4, "net:[4026532000]", `/run/netns/x\08`, "nsfs", []string{"rw"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct{ fileSystem, option, dir string }{{"cgroup", "perf_event", "/c"}, {"cgroup", "memory", ""}, {"nsfs", "", `/run/netns/x\08`}} {
		if dir, ok := FindMount(got, tt.fileSystem, tt.option); dir != tt.dir || ok != (dir != "") {
			t.Errorf("%s with %q is at %q, %v", tt.fileSystem, tt.option, dir, ok)
		}
	}
	if _, err := Mounts(proc, "13"); err == nil {
		t.Error("a process that is not there has mounts")
	}
}
