package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/fleet/server"
	"github.com/bperf/bperf/test/require"
)

// manifest has the objects of packaging/kubernetes/daemonset.yaml.
type manifest struct {
	namespace *core.Namespace
	config    *core.ConfigMap
	daemon    *apps.DaemonSet
	account   *core.ServiceAccount
	role      *rbac.ClusterRole
	binding   *rbac.ClusterRoleBinding
	text      string
}

// optional begins the lines of the manifest with which bperf asks the kubelet.
const optional = "#+"

// readManifest decodes the file with Kubernetes' own types, with its optional lines or without. Unknown and repeated fields are errors.
func readManifest(t *testing.T, whole bool) *manifest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "packaging", "kubernetes", "daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, apps.AddToScheme, rbac.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	m := &manifest{text: string(text)}
	if whole {
		m.text = strings.ReplaceAll(m.text, "\n"+optional, "\n")
	}
	for _, document := range strings.Split(m.text, "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch o := object.(type) {
		case *core.Namespace:
			m.namespace = o
		case *core.ConfigMap:
			m.config = o
		case *apps.DaemonSet:
			m.daemon = o
		case *core.ServiceAccount:
			m.account = o
		case *rbac.ClusterRole:
			m.role = o
		case *rbac.ClusterRoleBinding:
			m.binding = o
		}
	}
	if m.namespace == nil || m.config == nil || m.daemon == nil {
		t.Fatal("an object is missing")
	}
	return m
}

// TestDaemonSet checks that the parts of the manifest fit each other, and that bperf takes its configuration.
func TestDaemonSet(t *testing.T) {
	t.Run("without the kubelet", func(t *testing.T) {
		if s := readManifest(t, false).check(t); s.Kubelet.URL != "" {
			t.Errorf("bperf asks %s", s.Kubelet.URL)
		}
	})
	t.Run("with the kubelet", func(t *testing.T) {
		m := readManifest(t, true)
		m.checkKubelet(t, m.check(t))
	})
}

// checkKubelet checks that bperf may do nothing but ask for pods, and that it has the files that this takes.
func (m *manifest) checkKubelet(t *testing.T, s *settings.Settings) {
	t.Helper()
	pod := m.daemon.Spec.Template.Spec
	for _, file := range []string{s.Kubelet.TokenFile, s.Kubelet.CA} {
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(v core.VolumeMount) bool { return v.MountPath == file || v.MountPath == filepath.Dir(file) }) {
			t.Errorf("%q is not mounted", file)
		}
	}
	if m.account == nil || m.role == nil || m.binding == nil {
		t.Fatal("an object is missing")
	}
	if m.account.Name != pod.ServiceAccountName || m.account.Namespace != m.namespace.Name {
		t.Errorf("the pods use the account %q", pod.ServiceAccountName)
	}
	may := []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/pods"}, Verbs: []string{"get"}}}
	if !reflect.DeepEqual(m.role.Rules, may) {
		t.Errorf("bperf may %v", m.role.Rules)
	}
	to := []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: m.account.Name, Namespace: m.account.Namespace}}
	if !reflect.DeepEqual(m.binding.Subjects, to) || m.binding.RoleRef != (rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: m.role.Name}) {
		t.Errorf("the role is bound to %v", m.binding)
	}
}

// check checks that the parts fit each other, and returns the configuration.
func (m *manifest) check(t *testing.T) *settings.Settings {
	t.Helper()
	pod := m.daemon.Spec.Template
	for key, value := range m.daemon.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("the pods do not have the label %s=%s", key, value)
		}
	}
	if m.daemon.Namespace != m.namespace.Name || m.config.Namespace != m.namespace.Name {
		t.Error("the objects are in different namespaces")
	}
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		volumes = append(volumes, v.Name)
		if v.ConfigMap != nil && v.ConfigMap.Name != m.config.Name {
			t.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
		}
	}
	c := pod.Spec.Containers[0]
	for _, mount := range c.VolumeMounts {
		if !slices.Contains(volumes, mount.Name) {
			t.Errorf("there is no volume %s", mount.Name)
		}
		m.hasReason(t, "{name: "+mount.Name+", mountPath")
	}
	if len(c.VolumeMounts) != len(volumes) {
		t.Errorf("%d volumes have %d mounts", len(volumes), len(c.VolumeMounts))
	}
	for _, capability := range c.SecurityContext.Capabilities.Add {
		m.hasReason(t, "- "+string(capability)+" ")
	}
	s, err := settings.Parse([]byte(m.config.Data["bperf.yml"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, is := m.config.Data[s.WebConfig]; !is {
		t.Errorf("the ConfigMap has no %s", s.WebConfig)
	}
	if _, port, err := net.SplitHostPort(s.Listen[0]); err != nil || port != "9465" || c.Ports[0].ContainerPort != 9465 {
		t.Errorf("the port is %s in the configuration and %d in the container", port, c.Ports[0].ContainerPort)
	}
	return s
}

// hasReason checks that the line that begins in this way has a comment.
func (m *manifest) hasReason(t *testing.T, begin string) {
	t.Helper()
	for line := range strings.Lines(m.text) {
		if strings.Contains(line, begin) && strings.Contains(line, " # ") {
			return
		}
	}
	t.Errorf("there is no reason beside %s", begin)
}

// TestCapabilities runs bperf with no more capabilities than the DaemonSet gives it.
func TestCapabilities(t *testing.T) {
	require.Root(t)
	require.Tools(t, "setpriv")
	bounding := "-all"
	for _, c := range readManifest(t, true).daemon.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add {
		bounding += ",+" + strings.ToLower(string(c))
	}
	socket := filepath.Join(t.TempDir(), "bperf.sock")
	s := server.Start(t, exec.Command("setpriv", "--bounding-set", bounding, "--inh-caps", "-all", program, "serve", "--listen", "unix:"+socket,
		"-e", "page-faults", "--cpu-budget", "0", "--memory-budget", "0"))
	s.Logged("msg=(counting)")
	p := startPod(t, "web-0", 16)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	get := func(path string) string {
		t.Helper()
		response, err := client.Get("http://localhost" + path)
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, response.Body)
	}
	server.Await(t, "everything is counted", func() string {
		metrics := get("/metrics")
		for _, want := range []string{
			`bperf_feature_supported{feature="containers",reason=""} 1`,
			`bperf_feature_supported{feature="bpf_programs",reason=""} 1`,
			`bperf_container_events_total{cgroup="",container="",container_id="` + p.ID + `",event="page-faults"`,
		} {
			if !strings.Contains(metrics, want) {
				return want
			}
		}
		return ""
	})
	server.Await(t, "functions of the kernel and of the container have names", func() string {
		taken, err := pprof.ParseData([]byte(get("/debug/pprof/profile?seconds=1&container=" + p.ID)))
		if err != nil {
			t.Fatal(err)
		}
		var kernel, own bool
		for _, f := range taken.Function {
			own = own || strings.HasSuffix(f.Name, "/pod.work")
			kernel = kernel || strings.HasSuffix(f.Name, "_fault")
		}
		if !kernel || !own {
			return taken.String()
		}
		return ""
	})
}
