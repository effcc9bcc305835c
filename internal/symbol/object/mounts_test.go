package object

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/procfs"
)

var mounts = []procfs.Mount{
	{Major: 254, Dir: "/", Type: "ext4", Options: []string{"rw"}},
	{Minor: 39, Dir: "/home/u/a b", Type: "fuse.sshfs", Options: []string{"rw", "user_id=1000", "group_id=1000"}},
	{Minor: 40, Dir: "/mnt/fuse", Type: "fuse", Options: []string{"rw", "user_id=0", "group_id=0", "allow_other"}},
	{Major: 8, Minor: 1, Dir: "/mnt/windows", Type: "fuseblk", Options: []string{"rw", "user_id=10001"}},
	{Minor: 41, Dir: "/mnt/share", Type: "virtiofs", Options: []string{"rw"}},
}

func TestFuseMounts(t *testing.T) {
	for _, tt := range []struct {
		user    int
		refused []string
	}{
		{0, []string{"/home/u/a b/c", "/mnt/fuse", "/mnt/fuse/a", "/mnt/windows/a"}},
		{1000, []string{"/mnt/fuse", "/mnt/fuse/a", "/mnt/windows/a"}},
	} {
		m := findFuse(mounts, tt.user)
		var refused []string
		for _, path := range []string{"/", "/home/u/a", "/home/u/a b/c", "/mnt/fuse", "/mnt/fuse/a", "/mnt/fuses", "/mnt/share/a", "/mnt/windows/a"} {
			if m.have(path) {
				refused = append(refused, path)
			}
		}
		if !slices.Equal(refused, tt.refused) {
			t.Errorf("user %d does not ask for %q", tt.user, refused)
		}
	}
}

// TestLinks follows symbolic links as the kernel does, below a root, but not to a FUSE mount.
func TestLinks(t *testing.T) {
	root := t.TempDir()
	const followed = ""
	for _, dir := range []string{"usr/lib", "mnt/fuse"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "usr/lib/a"), []byte("a"))
	write(t, filepath.Join(root, "mnt/fuse/a"), []byte("a"))
	for link, to := range map[string]string{
		"lib": "usr/lib", "absolute": "/usr/lib", "usr/lib/b": "a", "usr/lib/up": "../../usr/./lib", "above": "../../../usr/lib", "chain": "lib/up/b",
		"loop": "loop", "to-fuse": "mnt/fuse", "usr/lib/f": "/to-fuse/a", "odd": "usr/lib/../lib",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{"shared": 0o777 | os.ModeSticky, "open": 0o777, "map_files": 0o755} {
		if err := errors.Join(os.Mkdir(filepath.Join(root, dir), 0o755), os.Chmod(filepath.Join(root, dir), mode), os.Symlink("../usr/lib", filepath.Join(root, dir, "link"))); err != nil {
			t.Fatal(err)
		}
		_ = os.Lchown(filepath.Join(root, dir, "link"), nobody, nobody) // as root
	}
	inShared := followed
	if os.Geteuid() == 0 {
		inShared = "permission denied"
	}
	w, err := walkFrom(root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.trusted = false // the directory stands for a mount
	w.fuse = &fuseMounts{dirs: []string{filepath.Join(root, "mnt/fuse")}}
	for path, want := range map[string]string{
		"/usr/lib/a": followed, "/lib/a": followed, "/absolute/a": followed, "/lib/b": followed, "/lib/up/up/b": followed, "/above/a": followed, "/chain": followed,
		"/shared/link/a": inShared, "/open/link/a": followed, "/map_files/link/a": followed,
		"/loop": "too many levels", "/loop/a": "too many levels", "/lib/none": "no such file", "/usr/lib/a/b": "not a directory", "/lib": "no regular file",
		"/mnt/fuse/a": "FUSE", "/to-fuse/a": "FUSE", "/lib/f": "FUSE", "/odd/a": followed, "//./usr//lib/./a": followed, "/lib/../lib/a": followed, "/absolute/../../usr/lib/a": followed, "/none/../lib/a": "no such file", "/.././mnt//fuse/a": "FUSE", "/usr/../mnt/fuse/a": "FUSE",
	} {
		f, err := w.open(path)
		if err == nil {
			_ = f.Close()
		}
		if want == followed && err != nil || want != followed && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, not %q", path, err, want)
		}
	}
}
