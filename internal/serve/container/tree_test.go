package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fake returns directories of a test's own.
func fake(t testing.TB) Dirs {
	t.Helper()
	dir := t.TempDir()
	d := Dirs{filepath.Join(dir, "cgroup"), filepath.Join(dir, "pods"), filepath.Join(dir, "containers")}
	for _, name := range []string{d.Cgroups, d.Pods, d.Containers} {
		check(t, os.Mkdir(name, 0o755))
	}
	return d
}

// add makes a cgroup and returns its ID.
func (d Dirs) add(t testing.TB, path string) uint64 {
	t.Helper()
	check(t, os.MkdirAll(d.Cgroups+path, 0o755))
	var info syscall.Stat_t
	check(t, syscall.Stat(d.Cgroups+path, &info))
	return info.Ino
}

func refresh(t testing.TB, tree *Tree, now time.Time) []Removed {
	t.Helper()
	removed, err := tree.Refresh(now)
	check(t, err)
	return removed
}

// names returns the names and ends of containers.
func names(all []*Container) (s []string) {
	for _, c := range all {
		s = append(s, fmt.Sprintf("%s %.4s %.4s %s/%s/%s ended=%v", c.Path, c.ID, c.PodUID, c.Namespace, c.Pod, c.Container, !c.Ended.IsZero()))
	}
	return s
}

func TestTree(t *testing.T) {
	require.NoKernel(t)
	d := fake(t)
	pod := "/kubepods/burstable/pod" + uid
	app, pause := d.add(t, pod+"/"+id), d.add(t, pod+"/"+other)
	below := d.add(t, pod+"/"+id+"/a/b")
	service := d.add(t, "/system.slice/ssh.service")
	root := d.add(t, "/")
	check(t, os.Mkdir(filepath.Join(d.Pods, "shop_cart-0_"+uid), 0o755))
	check(t, os.WriteFile(filepath.Join(d.Containers, "cart-0_shop_app-"+id+".log"), nil, 0o644))
	tree := NewTree(d, nil)
	now := time.Now()
	if removed := refresh(t, tree, now); removed != nil {
		t.Errorf("%+v", removed)
	}
	expect := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, names(tree.Containers())); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	const slice, ssh = "/system.slice   // ended=false", "/system.slice/ssh.service   // ended=false"
	expect(pod+"/"+id+" 0123 6f1d shop/cart-0/app ended=false", pod+"/"+other+" fedc 6f1d shop/cart-0/ ended=false", slice, ssh)
	for cgroup, want := range map[uint64]string{app: id, below: id, pause: other, service: "", root: "none"} {
		c, known := tree.Of(cgroup)
		if !known || (c == nil) != (want == "none") || c != nil && c.ID != want {
			t.Errorf("cgroup %d: %+v, %v, want %q", cgroup, c, known, want)
		}
	}
	if c, known := tree.Of(1 << 60); known {
		t.Errorf("a cgroup that does not exist: %+v", c)
	}

	check(t, os.RemoveAll(d.Cgroups+pod+"/"+id))
	refresh(t, tree, now.Add(time.Second))
	expect(pod+"/"+id+" 0123 6f1d shop/cart-0/app ended=true", pod+"/"+other+" fedc 6f1d shop/cart-0/ ended=false", slice, ssh)
	if _, known := tree.Of(app); known {
		t.Error("the cgroup is gone")
	}
	d.add(t, pod+"/"+id) // it starts again
	refresh(t, tree, now.Add(2*time.Second))
	expect(pod+"/"+id+" 0123 6f1d shop/cart-0/app ended=false", pod+"/"+other+" fedc 6f1d shop/cart-0/ ended=false", slice, ssh)
	check(t, os.RemoveAll(d.Cgroups+"/kubepods"))
	check(t, os.RemoveAll(d.Pods))
	end := now.Add(time.Minute)
	if removed := refresh(t, tree, end); len(removed) < 3 {
		t.Errorf("%+v", removed)
	}
	refresh(t, tree, end.Add(Keep))
	expect(pod+"/"+id+" 0123 6f1d shop/cart-0/app ended=true", pod+"/"+other+" fedc 6f1d shop/cart-0/ ended=true", slice, ssh)
	refresh(t, tree, end.Add(Keep+1))
	expect(slice, ssh)
	if len(tree.ids) != 0 || len(tree.cgroups) != 3 {
		t.Errorf("%d IDs, %d cgroups are left", len(tree.ids), len(tree.cgroups))
	}
}

// TestHostileTree has a user who makes cgroups with the names of others' containers, with control characters, deep and many.
func TestHostileTree(t *testing.T) {
	require.NoKernel(t)
	d := fake(t)
	owned := d.add(t, "/docker/"+id)
	user := "/user.slice/user-1000.slice/user@1000.service"
	forged := d.add(t, user+"/docker-"+id+".scope")
	strange := d.add(t, user+"/a\x1b[2J\xff/docker-"+other+".scope")
	for i := range 2 * mostBelow {
		d.add(t, fmt.Sprintf("/docker/%s/%d/%d", id, i, i))
	}
	d.add(t, user+strings.Repeat("/deep", 500))
	after := d.add(t, "/system.slice/z.service")
	tree := NewTree(d, nil)
	refresh(t, tree, time.Now())
	if c, _ := tree.Of(owned); c == nil || c.ID != id {
		t.Errorf("the container: %+v", c)
	}
	if c, _ := tree.Of(forged); c == nil || c.ID != "" || c.PodUID != "" {
		t.Errorf("a cgroup with the name of another's container: %+v", c)
	}
	if c, _ := tree.Of(strange); c == nil || c.ID != other || c.Path != user+"/a?[2J\uFFFD/docker-"+other+".scope" {
		t.Errorf("a cgroup below a strange name: %+v", c)
	}
	if c, _ := tree.Of(after); c == nil || c.Path != "/system.slice/z.service" {
		t.Errorf("the last cgroup: %+v", c)
	}
	if n := len(tree.cgroups); n > 2*mostBelow+20 {
		t.Errorf("a walk found %d cgroups", n)
	}
}

func TestTreeIsBounded(t *testing.T) {
	require.NoKernel(t)
	d := fake(t)
	d.add(t, "/docker")
	for i := range mostContainers + 10 {
		check(t, os.Mkdir(fmt.Sprintf("%s/docker/%064x", d.Cgroups, i), 0o755))
	}
	tree := NewTree(d, nil)
	refresh(t, tree, time.Now())
	if n := len(tree.Containers()); n != mostContainers || tree.Skipped() != 10 {
		t.Errorf("%d containers, %d skipped", n, tree.Skipped())
	}
}

func TestRefreshWithoutCgroups(t *testing.T) {
	require.NoKernel(t)
	d := fake(t)
	check(t, os.Remove(d.Cgroups))
	if _, err := NewTree(d, nil).Refresh(time.Now()); err == nil || !strings.Contains(err.Error(), d.Cgroups) {
		t.Error(err)
	}
}

func TestLogNames(t *testing.T) {
	require.NoKernel(t)
	long := strings.Repeat("é", 200)
	for name, want := range map[string]pod{
		"shop_cart-0_" + uid:  {"shop", "cart-0"},
		"a\nb_" + long + "_x": {"a?b", long[:252]}, // 253 would cut a letter
		"_cart_" + uid:        {}, "shop__" + uid: {}, "shop_cart": {}, "": {}, "a_b_c_d": {},
	} {
		if _, p, ok := parsePodLog(name); p != want || ok != (want.name != "") {
			t.Errorf("%q: %+v, %v", name, p, ok)
		}
	}
	for name, want := range map[string]inItsPod{
		"cart-0_shop_app-" + id + ".log":      {pod{"shop", "cart-0"}, "app"},
		"cart-0_shop_my-app-" + id + ".log":   {pod{"shop", "cart-0"}, "my-app"},
		"cart-0_shop_-" + id + ".log":         {},
		"cart-0_shop_app-" + id[1:] + ".log":  {},
		"cart-0_shop_app" + id + ".log":       {},
		"cart-0_shop_a_b-" + id + ".log":      {},
		"cart-0_shop_app-crio-" + id + ".log": {pod{"shop", "cart-0"}, "app-crio"},
	} {
		if of, c, ok := parseContainerLog(name); c != want || ok != (want.name != "") || ok && of != id {
			t.Errorf("%q: %q, %+v, %v", name, of, c, ok)
		}
	}
}

// TestLogsOfOthers has a log whose name contradicts the pod's directory.
func TestLogsOfOthers(t *testing.T) {
	require.NoKernel(t)
	l := logs{byUID: map[string]pod{uid: {"shop", "cart"}}, byID: map[string]inItsPod{id: {pod{"bank", "vault"}, "app"}}}
	for _, tt := range []struct{ of, want Name }{
		{Name{ID: id, PodUID: uid}, Name{ID: id, PodUID: uid, Namespace: "shop", Pod: "cart"}},
		{Name{ID: id, PodUID: static}, Name{ID: id, PodUID: static, Namespace: "bank", Pod: "vault", Container: "app"}},
		{Name{ID: id}, Name{ID: id}},
	} {
		got := tt.of
		if l.complete(&got); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.of, got, tt.want)
		}
	}
}

func TestFindDirs(t *testing.T) {
	require.NoKernel(t)
	const (
		v1 = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		v2 = "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	for mounts, want := range map[string]string{
		v1 + v2: "", v1: "only cgroup v1 is mounted", "": "cgroup v2 is not mounted",
	} {
		d, err := findDirs(fstest.MapFS{"proc/self/mountinfo": {Data: []byte(mounts)}})
		if want == "" && (err != nil || d.Cgroups != "/sys/fs/cgroup/unified") || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", mounts, d, err)
		}
	}
}
