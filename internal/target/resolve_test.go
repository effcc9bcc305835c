package target

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// fakeRoot reads a file tree from testdata.
func fakeRoot(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{}
	for _, f := range archive.Files {
		root[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return root
}

func TestResolve(t *testing.T) {
	root := fakeRoot(t, "machine.txtar")
	main, worker, other := Thread{100, 100, "server"}, Thread{102, 100, "worker 1"}, Thread{200, 200, "other"}
	tests := []struct {
		name string
		spec Spec
		want Target
		err  string
	}{
		{name: "system", spec: Spec{System: true}, want: Target{CPUs: []int{0, 1, 3}}},
		{name: "CPUs", spec: Spec{CPUs: []int{3, 0}}, want: Target{CPUs: []int{0, 3}}},
		{name: "one offline", spec: Spec{CPUs: []int{1, 2}}, want: Target{CPUs: []int{1}, Offline: []int{2}}},
		{name: "all offline", spec: Spec{CPUs: []int{2}}, err: "the CPUs 2 are all offline"},
		{name: "no such CPU", spec: Spec{CPUs: []int{0, 8}}, err: "CPU 8 does not exist: this machine has 0-3"},
		{name: "process", spec: Spec{PIDs: []int{100}}, want: Target{Threads: []Thread{main, {101, 100, "server"}, {102, 100, "server"}}}},
		{name: "process with thread names", spec: Spec{PIDs: []int{100}, ThreadNames: true}, want: Target{Threads: []Thread{main, worker}}},
		{name: "thread", spec: Spec{TIDs: []int{102}}, want: Target{Threads: []Thread{worker}}},
		{name: "process and thread of it", spec: Spec{PIDs: []int{200, 100}, TIDs: []int{102}, ThreadNames: true}, want: Target{Threads: []Thread{main, worker, other}}},
		{name: "no such process", spec: Spec{PIDs: []int{300}}, err: "there is no process 300"},
		{name: "no such thread", spec: Spec{TIDs: []int{300}}, err: "there is no thread 300"},
		{name: "thread without a process", spec: Spec{TIDs: []int{400}}, err: "/proc/400/status: has no line Tgid"},
		{name: "nothing", err: "there is nothing to measure: no CPU, process, thread or cgroup is given"},
		{name: "process and system", spec: Spec{PIDs: []int{100}, System: true},
			err: "processes and threads cannot be measured together with CPUs or cgroups"},
		{name: "process and cgroup", spec: Spec{PIDs: []int{100}, Cgroups: []string{"/"}},
			err: "processes and threads cannot be measured together with CPUs or cgroups"},
		{name: "cgroup alone", spec: Spec{Cgroups: []string{"a"}},
			err: "cgroups are measured on CPUs: add -a or -C"},
		{name: "cgroups", spec: Spec{System: true, Cgroups: []string{"/", "", "web", "/web/one", "/cg two/web", "/cg two", "../../etc"}},
			err: `there is no cgroup "../../etc": looked for the directory /cg two/etc in the cgroup2 hierarchy mounted on /cg two`},
		{name: "cgroups that exist", spec: Spec{CPUs: []int{0}, Cgroups: []string{"/", "", "web", "/web/one", "/cg two/web", "/cg two"}},
			want: Target{CPUs: []int{0}, Cgroups: []Cgroup{
				{"/", "/cg two"}, {"", "/cg two"}, {"web", "/cg two/web"}, {"/web/one", "/cg two/web/one"},
				{"/cg two/web", "/cg two/web"}, {"/cg two", "/cg two"},
			}}},
		{name: "a file is no cgroup", spec: Spec{System: true, Cgroups: []string{"web/cgroup.procs"}},
			err: `there is no cgroup "web/cgroup.procs": looked for the directory /cg two/web/cgroup.procs in the cgroup2 hierarchy mounted on /cg two`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.spec.resolve(root)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			checkError(t, err, tt.err)
		})
	}
}

func TestNobody(t *testing.T) {
	if !(Spec{ThreadNames: true}).Nobody() {
		t.Error("who is named, where no one is?")
	}
	for _, s := range []Spec{{System: true}, {CPUs: []int{0}}, {PIDs: []int{1}}, {TIDs: []int{1}}, {User: "root"}, {Cgroups: []string{"/"}}} {
		if s.Nobody() {
			t.Errorf("%+v is nobody", s)
		}
	}
}

func TestResolveOnDamagedMachine(t *testing.T) {
	tests := []struct {
		file, text string
		spec       Spec
		err        string
	}{
		{"x", "", Spec{System: true}, "list the CPUs that are online: read /sys/devices/system/cpu/online: file does not exist"},
		{"sys/devices/system/cpu/online", "0-\n", Spec{System: true},
			`/sys/devices/system/cpu/online: CPU list "0-\n": "0-" is not a number or a range`},
		{"sys/devices/system/cpu/online", "0\n", Spec{CPUs: []int{0}},
			"list the CPUs that are present: read /sys/devices/system/cpu/present: file does not exist"},
		{"sys/devices/system/cpu/online", "0\n", Spec{System: true, Cgroups: []string{"/"}},
			"find the cgroup hierarchy: read /proc/self/mountinfo: file does not exist"},
		{"proc/7/task/x/comm", "a\n", Spec{PIDs: []int{7}}, "process 7 has ended"},
		{"proc/7/task/7/stat", "", Spec{PIDs: []int{7}, ThreadNames: true}, "process 7 has ended"},
		{"proc/7/status", "Name: a\nTgid: 7\n", Spec{TIDs: []int{7}}, "thread 7 has ended"},
	}
	for _, tt := range tests {
		_, err := tt.spec.resolve(fstest.MapFS{tt.file: {Data: []byte(tt.text)}, "proc/7/comm": {}})
		checkError(t, err, tt.err)
	}
}

func TestHierarchy(t *testing.T) {
	const (
		v2   = "30 20 0:26 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		v2b  = "31 20 0:26 / /mnt rw - cgroup2 none rw\n"
		v1   = "40 30 0:33 / /sys/fs/cgroup/perf_event rw shared:20 - cgroup cgroup rw,perf_event\n"
		v1x  = "41 30 0:34 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
		none = "no cgroup hierarchy that perf events support is mounted (cgroup2, or cgroup v1 with perf_event). Try: mount -t cgroup2 none /sys/fs/cgroup"
	)
	tests := []struct {
		mounts  string
		cgroups string // /proc/cgroups
		want    hierarchy
		err     string
	}{
		{mounts: v2, cgroups: "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nperf_event\t0\t1\t1\n", want: hierarchy{"cgroup2", "/sys/fs/cgroup"}},
		{mounts: v2, cgroups: "perf_event\t7\t1\t1\n",
			err: "perf events use the cgroups of a v1 hierarchy, which is not mounted. Try: mount -t cgroup -o perf_event none DIRECTORY"},
		{mounts: v2, want: hierarchy{"cgroup2", "/sys/fs/cgroup"}},
		{mounts: v1x + v2 + v2b, want: hierarchy{"cgroup2", "/sys/fs/cgroup"}},
		{mounts: v2 + v1x + v1, want: hierarchy{"perf_event", "/sys/fs/cgroup/perf_event"}},
		{mounts: `31 20 0:26 / /a\040b\134c\x rw - cgroup2 none rw` + "\n", want: hierarchy{"cgroup2", `/a b\c\x`}},
		{mounts: v1x, err: none},
		{mounts: "", err: none},
		{mounts: "x\n - \n1 2 3 4 5 - cgroup2\n", err: none},
	}
	for _, tt := range tests {
		got, err := findHierarchy(fstest.MapFS{"proc/self/mountinfo": {Data: []byte(tt.mounts)}, "proc/cgroups": {Data: []byte(tt.cgroups)}})
		if got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.mounts, got, tt.want)
		}
		checkError(t, err, tt.err)
	}
}

func TestMatchCgroups(t *testing.T) {
	root := fakeRoot(t, "machine.txtar")
	tests := []struct {
		list string
		want []string
		err  string
	}{
		{list: "/,web,no/such", want: []string{"/", "web", "no/such"}},
		{list: "^web", want: []string{"web", "web/one", "web/two"}},
		{list: "^web/.*$|^/$", want: []string{"/", "web/one", "web/two"}},
		{list: ".*", want: []string{"/", "batch", "web", "web/one", "web/two"}},
		{list: "", err: `cgroups "": a name is empty (the root is /)`},
		{list: "a,", err: `cgroups "a,": a name is empty (the root is /)`},
		{list: "a,b,a", want: []string{"a", "b"}},
		{list: "nosuch.*", err: `no cgroup below /cg two matches "nosuch.*"`},
		{list: "(", err: "cgroups \"(\": error parsing regexp: missing closing ): `(`"},
	}
	for _, tt := range tests {
		got, err := matchCgroups(root, tt.list)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.list, diff)
		}
		checkError(t, err, tt.err)
	}
}

// TestResolveOnThisMachine expects this process on the list of this machine's processes, and its first cgroup where the kernel reports it.
func TestResolveOnThisMachine(t *testing.T) {
	self := os.Getpid()
	process, err := Spec{PIDs: []int{self}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	thread, err := Spec{TIDs: []int{self}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if len(process.Threads) < 2 || process.Threads[0] != thread.Threads[0] || thread.Threads[0].PID != self {
		t.Errorf("process %+v, thread %+v: want the threads of a Go program, the first first", process, thread)
	}
	system, err := Spec{System: true}.Resolve()
	if err != nil || len(system.CPUs) == 0 {
		t.Errorf("system %+v (%v)", system, err)
	}
}

func TestSameThreads(t *testing.T) {
	of := func(tids ...int) (t Target) {
		for _, tid := range tids {
			t.Threads = append(t.Threads, Thread{TID: tid})
		}
		return t
	}
	tests := []struct {
		a, b Target
		same bool
		new  int
	}{
		{of(), of(), true, 0},
		{of(1, 2), of(2, 1), true, 0},
		{of(1, 2), of(1), false, 1},
		{of(1), of(1, 2), false, 0},
		{of(1, 3), of(1, 2), false, 1},
	}
	for _, tt := range tests {
		if same, n := tt.a.SameThreads(tt.b), tt.a.new(tt.b); same != tt.same || n != tt.new {
			t.Errorf("%v and %v: same %v, %d new; want %v, %d", tt.a, tt.b, same, n, tt.same, tt.new)
		}
	}
}

func TestTopology(t *testing.T) {
	root := fakeRoot(t, "machine.txtar")
	sys, err := fs.Sub(root, "sys")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadTopology(sys)
	if err != nil {
		t.Fatal(err)
	}
	want := Topology{0: {}, 1: {Core: 4, Die: 1, Socket: 0, Node: 0}, 3: {Core: 0, Die: 0, Socket: 36, Node: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	at := Location{Core: 3, Die: 2, Socket: 1, Node: 7, Cluster: 5, CacheLevel: 4, Cache: 6}
	ids := []string{at.CoreID(), at.ClusterID(), at.CacheID(), at.DieID(), at.SocketID(), at.NodeID()}
	if diff := cmp.Diff([]string{"S1-D2-C3", "S1-D2-CLS5", "S1-D2-L4-ID6", "S1-D2", "S1", "N7"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestTopologyErrors(t *testing.T) {
	const online = "devices/system/cpu/online"
	tests := []struct {
		file, text string
		err        string
	}{
		{"x", "", "read the topology: list the CPUs that are online: read /sys/devices/system/cpu/online: file does not exist"},
		{online, "-\n", `read the topology: /sys/devices/system/cpu/online: CPU list "-\n": "-" is not a number or a range`},
		{"devices/system/cpu/cpu0/topology/core_id", "x\n", `read the topology: /sys/devices/system/cpu/cpu0/topology/core_id: "x" is not a number`},
		{"devices/system/node/node0/cpulist", "0-\n", `read the topology: /sys/devices/system/node/node0/cpulist: CPU list "0-\n": "0-" is not a number or a range`},
		{"devices/system/node/node0x/cpulist", "0\n", `read the topology: /sys/devices/system/node/node0x/cpulist: strconv.Atoi: parsing "0x": invalid syntax`},
	}
	for _, tt := range tests {
		sys := fstest.MapFS{tt.file: {Data: []byte(tt.text)}}
		if tt.file != online && tt.file != "x" {
			sys[online] = &fstest.MapFile{Data: []byte("0\n")}
		}
		_, err := ReadTopology(sys)
		checkError(t, err, tt.err)
	}
}

func TestReadCaches(t *testing.T) {
	sys := fstest.MapFS{}
	cache := func(cpu, index int, level, kind, shared string) {
		for name, text := range map[string]string{"level": level, "type": kind, "shared_cpu_list": shared} {
			sys[fmt.Sprintf("devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name)] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	for cpu, shared := range []string{"0,2", "1", "0,2"} {
		cache(cpu, 0, "1", "Data", shared)
		cache(cpu, 1, "1", "Instruction", "0-2")
		cache(cpu, 2, "2", "Unified", "0-2")
	}
	at := func(level int, first ...int) Topology {
		got := Topology{}
		for cpu, f := range first {
			got[cpu] = Location{Core: cpu, CacheLevel: level, Cache: f}
		}
		return got
	}
	for level, want := range []Topology{at(2, 0, 0, 0), at(1, 0, 1, 0), at(2, 0, 0, 0)} {
		got := Topology{0: {Core: 0}, 1: {Core: 1}, 2: {Core: 2}}
		if err := got.ReadCaches(sys, level); err != nil {
			t.Errorf("level %d: %v", level, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("level %d: %s", level, diff)
		}
	}
	checkError(t, Topology{1: {}}.ReadCaches(sys, 3), "CPU 1 has no cache of level 3 in /sys/devices/system/cpu/cpu1/cache: choose another level")
	checkError(t, Topology{7: {}}.ReadCaches(sys, 0),
		"the kernel describes no cache of CPU 7 in /sys/devices/system/cpu/cpu7/cache (a virtual machine without them?)")
	cache(4, 0, "1", "Data", "")
	checkError(t, Topology{4: {}}.ReadCaches(sys, 0), `read the caches: /sys/devices/system/cpu/cpu4/cache/index0: it is shared by "\n", which is no list of CPUs`)
	cache(4, 0, "x", "Data", "0")
	checkError(t, Topology{4: {}}.ReadCaches(sys, 0), `read the topology: /sys/devices/system/cpu/cpu4/cache/index0/level: "x" is not a number`)
}
