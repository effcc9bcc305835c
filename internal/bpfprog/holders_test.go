package bpfprog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeProcess creates a process in a fake procfs, with the links of its descriptors and fdinfo for some.
func fakeProcess(t *testing.T, root, pid, comm string, descriptors, fdinfo map[string]string) {
	t.Helper()
	for _, dir := range []string{"fd", "fdinfo"} {
		if err := os.MkdirAll(filepath.Join(root, pid, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, pid, "comm"), []byte(comm+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for fd, target := range descriptors {
		if err := os.Symlink(target, filepath.Join(root, pid, "fd", fd)); err != nil {
			t.Fatal(err)
		}
	}
	for fd, text := range fdinfo {
		if err := os.WriteFile(filepath.Join(root, pid, "fdinfo", fd), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	fdinfoProgram = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1057\nprog_type:\t1\nprog_jited:\t1\nprog_tag:\t59f4a931744dcdc6\n" +
		"memlock:\t4096\nprog_id:\t25\nrun_time_ns:\t0\nrun_cnt:\t0\nrecursion_misses:\t0\nverified_insns:\t2\n"
	fdinfoLink = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1057\nlink_type:\traw_tracepoint\nlink_id:\t7\nprog_tag:\t59f4a931744dcdc6\n" +
		"prog_id:\t26\ntp_name:\tsched_switch\n"
)

func TestHolders(t *testing.T) {
	root := t.TempDir()
	fakeProcess(t, root, "100", "loader (x)", map[string]string{
		"0": "/dev/null", "3": "anon_inode:bpf-prog", "4": "anon_inode:bpf-prog", "5": "anon_inode:bpf_link", "6": "anon_inode:bpf-map", "7": "socket:[1]",
		"8": "anon_inode:bpf-prog", // closed during the scan: it has no fdinfo
		"9": "anon_inode:bpf-prog", "10": "anon_inode:[perf_event]",
	}, map[string]string{"3": fdinfoProgram, "4": fdinfoProgram, "5": fdinfoLink, "9": fdinfoProgram, "10": "pos:\t0\nflags:\t02000002\n", "6": "map_type:\t2\nmap_id:\t9\nprog_id:\t99\n", "0": "prog_id:\t98\n"})
	fakeProcess(t, root, "20", "agent", map[string]string{"9": "anon_inode:bpf_link"}, map[string]string{"9": fdinfoLink})
	fakeProcess(t, root, "30", "other", map[string]string{"1": "/tmp/anon_inode:bpf-prog"}, map[string]string{"1": fdinfoProgram})
	fakeProcess(t, root, "50", "this one", map[string]string{"3": "anon_inode:bpf-prog"}, map[string]string{"3": fdinfoProgram})
	if err := os.MkdirAll(filepath.Join(root, "40"), 0o755); err != nil { // an ended process: its directory is empty
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "uptime"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := holders(root, 50)
	if err != nil {
		t.Fatal(err)
	}
	type holding struct {
		held    []Holder
		memlock uint64
	}
	for id, want := range map[uint32]holding{
		25: {[]Holder{{100, "loader (x)"}}, 4096}, 26: {[]Holder{{20, "agent"}, {100, "loader (x)"}}, 0}, 24: {}, 27: {}, 98: {}, 99: {},
	} {
		held, memlock := open.of(id)
		if diff := cmp.Diff(want, holding{held, memlock}, cmp.AllowUnexported(holding{})); diff != "" {
			t.Errorf("%d: -want +got:\n%s", id, diff)
		}
	}
	if diff := cmp.Diff([]perfFile{{100, 10}}, open.perf, cmp.AllowUnexported(perfFile{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	held, err := Held(root, 100)
	if diff := cmp.Diff([]uint32{25, 26}, held); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := Held(root, 40); err == nil || err.Error() != "there is no process 40" {
		t.Errorf("got %v", err)
	}
}

func TestHoldersWithoutProc(t *testing.T) {
	if _, err := holders(filepath.Join(t.TempDir(), "proc"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
