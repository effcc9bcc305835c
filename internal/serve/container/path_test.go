package container

import (
	"strings"
	"testing"
)

var (
	id     = strings.Repeat("0123456789abcdef", 4)
	other  = strings.Repeat("fedcba9876543210", 4)
	uid    = "6f1d5c3a-9b2e-4a77-8c15-0d2e4f6a8b90"
	under  = strings.ReplaceAll(uid, "-", "_")
	static = strings.Repeat("0a1b2c3d", 4) // UID of a static pod
)

func TestParse(t *testing.T) {
	const none = "none"
	burst := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice"
	for _, tt := range []struct{ path, of, id, uid string }{
		// Kubernetes, driver systemd
		{burst + "/cri-containerd-" + id + ".scope", "", id, uid},
		{burst + "/crio-" + id + ".scope", "", id, uid},
		{burst + "/docker-" + id + ".scope", "", id, uid},
		{burst + "/crio-conmon-" + id + ".scope", burst, "", ""},
		{burst, "", "", ""},
		{"/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope", "", id, uid}, // guaranteed
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice/cri-containerd-" + id + ".scope", "", id, static},
		{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + under +
			".slice/cri-containerd-" + id + ".scope", "", id, uid},
		{"/system.slice/containerd.service/kubepods-burstable-pod" + under + ".slice:cri-containerd:" + id, "", id, uid},
		// Kubernetes, driver cgroupfs
		{"/kubepods/burstable/pod" + uid + "/" + id, "", id, uid},
		{"/kubepods/pod" + uid + "/crio-" + id, "", id, uid},
		{"/kubepods/burstable/pod" + uid, none, "", ""},
		{"/pods/burstable/pod" + uid + "/" + id, none, "", ""},
		// without Kubernetes
		{"/docker/" + id, "", id, ""},
		{"/system.slice/docker-" + id + ".scope", "", id, ""},
		{"/machine.slice/libpod-" + id + ".scope", "", id, ""},
		{"/machine.slice/libpod-conmon-" + id + ".scope", "/machine.slice", "", ""},
		{"/libpod_parent/libpod-" + id, "", id, ""},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope", "", id, ""},
		{"/somewhere/" + id, none, "", ""},
		{"/docker/" + id[1:], none, "", ""},
		{"/docker/" + strings.ToUpper(id), none, "", ""},
		// below a container
		{"/docker/" + id + "/kubelet.slice/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + other + ".scope", "/docker/" + id, id, ""},
		{burst + "/cri-containerd-" + id + ".scope/system.slice/cron.service", burst + "/cri-containerd-" + id + ".scope", id, uid},
		{"/machine.slice/libpod-" + id + ".scope/container", "/machine.slice/libpod-" + id + ".scope", id, ""},
		// users choose the names of their cgroups
		{"/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + uid + "/cri-containerd-" + id + ".scope", "", id, ""},
		{"/user.slice/user-1000.slice/user@1000.service/kubepods-pod" + under + ".slice:cri-containerd:" + id, "", id, ""},
		// units
		{"/system.slice/ssh.service", "", "", ""},
		{"/system.slice/ssh.service/worker/1", "/system.slice/ssh.service", "", ""},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/a.service", "/user.slice/user-1000.slice/user@1000.service", "", ""},
		{"/user.slice/user-1000.slice/session-3.scope", "/user.slice/user-1000.slice", "", ""},
		{"/system.slice/system-getty.slice", "", "", ""},
		{"/init.scope", none, "", ""}, {"/", none, "", ""}, {"", none, "", ""}, {"//", none, "", ""},
	} {
		got, ok := Parse(tt.path)
		want := Name{Path: tt.of, ID: tt.id, PodUID: tt.uid}
		if tt.of == "" {
			want.Path = tt.path
		}
		if tt.of == none || tt.path == "" {
			want.Path = ""
		}
		if got != want || ok != (want.Path != "") {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.path, got, ok, want)
		}
	}
}

// FuzzParse checks that the result is part of the path, and that a cgroup below a container belongs to the container.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"/kubepods/pod" + uid + "/" + id, "/docker/" + id + "/x", "/user.slice/a.service/b.slice",
		"/kubepods-pod" + under + ".slice:cri-containerd:" + id, "//a.slice//", "libpod-" + id + ".scope"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		n, ok := Parse(path)
		if ok != (n.Path != "") || !strings.HasPrefix(path, n.Path) || !strings.Contains(n.Path, n.ID) {
			t.Fatalf("%q: %+v, %v", path, n, ok)
		}
		if again, _ := Parse(n.Path); again != n {
			t.Errorf("%q: %+v; itself %+v", path, n, again)
		}
		if below, _ := Parse(strings.TrimSuffix(path, "/") + "/docker-" + other + ".scope"); n.ID != "" && below != n {
			t.Errorf("%q: %+v; below it %+v", path, n, below)
		}
	})
}
