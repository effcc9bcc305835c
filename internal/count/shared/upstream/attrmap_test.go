package upstream

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestCreate creates a map with perf's sizes that only root can use, and opens it if it exists.
func TestCreate(t *testing.T) {
	path := filepath.Join(bpffs(t), "attr_map")
	size, err := perfevent.KernelAttrSize()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if m := a.m; m.Type() != ebpf.Hash || int(m.KeySize()) != size || m.ValueSize() != 8 || m.MaxEntries() != 16 {
			t.Errorf("made %v", m)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != 0o600 {
			t.Errorf("mode %v", st.Mode())
		}
	}
}

// TestNone distinguishes a missing map from other errors.
func TestNone(t *testing.T) {
	dir, other := bpffs(t), t.TempDir()
	tests := []struct{ path, want string }{
		{dir + "/none", `there is no attr map .*/none: file does not exist`},
		{other + "/none", `there is no attr map .*/none \(file does not exist\): ` +
			`.* is not in a BPF file system \(bpffs\)\. To mount one: mount -t bpf bpf /sys/fs/bpf`},
		{other + "/none/none", `there is no attr map .*/none/none \(file does not exist\): look at .*/none: no such file or directory`},
	}
	for _, tt := range tests {
		_, err := Open(tt.path)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("not an fs.ErrNotExist: %v", err)
		}
		match(t, err, tt.want)
	}
}

// TestCreateElsewhere needs a bpffs.
func TestCreateElsewhere(t *testing.T) {
	require.Root(t)
	_, err := Create(t.TempDir() + "/map")
	match(t, err, `create the attr map .*/map: .* is not in a BPF file system \(bpffs\)\. To mount one: mount -t bpf bpf /sys/fs/bpf`)
	_, err = Create(bpffs(t) + "/none/map")
	match(t, err, `create the attr map .*/none/map: look at .*/none: no such file or directory`)
}

// TestNoAttrMap refuses other objects at the path of a map.
func TestNoAttrMap(t *testing.T) {
	dir := bpffs(t)
	for name, spec := range map[string]*ebpf.MapSpec{
		"array":  {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		"values": {Type: ebpf.Hash, KeySize: 144, ValueSize: 16, MaxEntries: 1},
		"keys":   {Type: ebpf.Hash, KeySize: 152, ValueSize: 8, MaxEntries: 1},
	} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Pin(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := idle(t, ebpf.RawTracepoint, "program").Pin(dir + "/program"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ path, want string }{
		{dir + "/array", `.*/array is not an attr map: it is a Array with values of 8 bytes, not a Hash with values of 8 bytes`},
		{dir + "/values", `.*/values is not an attr map: it is a Hash with values of 16 bytes, not a Hash with values of 8 bytes`},
		{dir + "/keys", `.*/keys is an attr map of a perf that bperf does not know: its keys have 152 bytes \(known: 128, 136, 144\)\. ` +
			`If no such perf is running, remove the file; otherwise use another path`},
		{dir + "/program", `.*/program is not an attr map: what is pinned there is another BPF object`},
		{dir, `.* is not an attr map: it is a directory`},
		{file, `open the attr map .*/file: .*/file is not in a BPF file system \(bpffs\)\. To mount one: mount -t bpf bpf /sys/fs/bpf`},
	}
	for _, tt := range tests {
		_, err := Open(tt.path)
		match(t, err, tt.want)
		_, err = Create(tt.path)
		match(t, err, tt.want)
	}
}

func match(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !regexp.MustCompile("^(?:"+want+")$").MatchString(err.Error()) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Of include/uapi/linux/capability.h.
const (
	capPerfmon = 38
	capBPF     = 39
)

// TestPermission checks the errors of another user who lacks permissions, one by one.
func TestPermission(t *testing.T) {
	dir := bpffs(t)
	path := filepath.Join(dir, "map")
	a, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Register(start(t, cpuClock)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the test's own
		t.Fatal(err)
	}
	some := []uintptr{capBPF, capPerfmon}
	const root = `Sharing counters with perf needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, as only IDs are in the map: run bperf as root`
	tests := []struct {
		name         string
		do           string
		dir, file    os.FileMode
		capabilities []uintptr
		want         string
	}{
		{"directory", "use", 0o700, 0o600, nil, `open the attr map .*/map: look at .*/map: permission denied\. Attr maps are root's: run bperf as root`},
		{"directory of none", "create", 0o700, 0o600, nil, `open the attr map .*/map: look at .*/map: permission denied\. Attr maps are root's: run bperf as root`},
		{"file", "use", 0o755, 0o600, some, `open the attr map .*/map: permission denied\. ` +
			`It can be read and written by its owner alone, who is usually root: run bperf as root`},
		{"IDs", "use", 0o755, 0o666, some,
			`use a leader that is registered in the attr map .*/map: get BPF link \d+: operation not permitted\. ` + root},
		{"leader", "start", 0o755, 0o600, nil, `load the leader's program: operation not permitted\. ` + root},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.Chmod(dir, tt.dir), os.Chmod(path, tt.file)); err != nil {
				t.Fatal(err)
			}
			match(t, asNobody(t, tt.do, path, tt.capabilities), tt.want)
		})
	}
	t.Run("create", func(t *testing.T) {
		if err := errors.Join(os.Chmod(dir, 0o755), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		match(t, asNobody(t, "create", path, some), `create the attr map .*/map: permission denied\. `+
			`Only the owner of .* can make files in it, who is usually root: run bperf as root`)
		match(t, asNobody(t, "create", path, nil), `create the attr map .*/map: operation not permitted\. `+root)
	})
}

// asNobody does something with an attr map as a user with only these capabilities, and returns the error.
func asNobody(t *testing.T, what, path string, capabilities []uintptr) error {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{doEnv + "=" + what, mapEnv + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: capabilities,
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return errors.New(string(out))
}

// TestLock makes another session wait.
func TestLock(t *testing.T) {
	path := filepath.Join(bpffs(t), "map")
	first, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	locked(t, first)
	second, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	try := func() error { return syscall.Flock(second.m.FD(), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err := try(); err != syscall.EWOULDBLOCK {
		t.Errorf("locked twice: %v", err)
	}
	unlock(t, first)
	if err := try(); err != nil {
		t.Errorf("after it was unlocked: %v", err)
	}
	unlock(t, second)
}

// unlock unlocks a map that stays open.
func unlock(t *testing.T, a *AttrMap) {
	t.Helper()
	if err := syscall.Flock(a.m.FD(), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
}
