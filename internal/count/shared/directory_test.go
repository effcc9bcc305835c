package shared

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestDirectories checks the errors for directories through which nothing can be shared.
func TestDirectories(t *testing.T) {
	require.Root(t)
	open, others := bpffs(t), bpffs(t)
	check(t, os.Mkdir(open, 0o777))
	check(t, os.Chmod(open, 0o777))
	check(t, os.Mkdir(others, 0o700))
	check(t, os.Chown(others, 65534, 65534))
	plain := t.TempDir()
	for name, tt := range map[string]struct{ dir, want string }{
		"no bpffs": {plain + "/bperf",
			"shared counters are found through bpffs, which is not mounted on " + plain + ". Try: mount -t bpf bpf " + plain},
		"no directory": {"/no/such/bperf", "shared counters are found through bpffs on /no/such: no such file or directory"},
		"all may change it": {open,
			"shared counters are found through " + open + ", which others may change (owner 0, mode -rwxrwxrwx). Remove it"},
		"another owner": {others,
			"shared counters are found through " + others + ", which others may change (owner 65534, mode -rwx------). Remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(Where{Dir: tt.dir}, parseEvents(t, "task-clock"), resolve(t, pids(os.Getpid())), inherit)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got error %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestNobody opens sessions as a user who may not share, and may not even look for the sessions of others.
func TestNobody(t *testing.T) {
	require.AnyArch(t)
	const remedy = ". Counters are shared between sessions of root, or of a user with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN " +
		"(to find objects of others by ID)\n"
	used, unused := bpffs(t), bpffs(t)
	start(t, used, "task-clock", pids(os.Getpid()), inherit)
	for dir, want := range map[string]string{
		used:   "shared counters are found through " + used + ": open " + used + ": permission denied" + remedy,
		unused: "create the BPF map events: bpf(BPF_MAP_CREATE): operation not permitted" + remedy,
	} {
		temporary := filepath.Dir(filepath.Dir(dir))
		check(t, os.Chmod(temporary, 0o755))
		check(t, os.Chmod(filepath.Dir(dir), 0o777))
		cmd := exec.Command("/proc/self/exe", "helper", "report", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		check(t, err)
		if string(out) != want {
			t.Errorf("got  %swant %s", out, want)
		}
	}
}

// TestOtherLayout has a session of another version of bperf, with tables of another layout.
func TestOtherLayout(t *testing.T) {
	require.AnyArch(t)
	dir := bpffs(t)
	p := startPuppet(t)
	ours := start(t, dir, getppid, pids(p.pid), inherit)
	pin := (&directory{path: dir}).pin()
	check(t, os.Rename(pin, filepath.Join(dir, "counters-other")))
	before, err := os.ReadDir(dir)
	check(t, err)
	next := start(t, dir, getppid, pids(p.pid), inherit)
	if a, b := ours.o.ids, next.o.ids; a == b {
		t.Error("both share the same objects")
	}
	p.call(0, 7)
	expect(t, ours, "the other version's session", 7)
	expect(t, next, "this version's session", 7)
	check(t, next.Close())
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("there are %v (%v), want %v", after, err, before)
	}
	check(t, os.Rename(filepath.Join(dir, "counters-other"), pin))
	check(t, ours.Close())
	expectEmpty(t, dir)
}
