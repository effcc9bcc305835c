package daemon

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bperf/bperf/test/fleet/pod"
	"github.com/bperf/bperf/test/fleet/server"
)

// object returns the pod as Kubernetes has it.
func (p *running) object() core.Pod {
	return core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: p.Name, Namespace: pod.Namespace, UID: types.UID(p.UID), Labels: map[string]string{"secret": "label"},
			Annotations: map[string]string{"name": "other"}, CreationTimestamp: meta.Now()},
		Spec: core.PodSpec{NodeName: "node-1", Containers: []core.Container{{Name: pod.Container, Image: "registry.example.com/app:1"}}},
		Status: core.PodStatus{Phase: core.PodRunning, ContainerStatuses: []core.ContainerStatus{
			{Name: pod.Container, ContainerID: "containerd://" + p.ID, State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: meta.Now()}}},
			{Name: "waits", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}},
	}
}

// TestKubelet gives a node a kubelet that lists pods with Kubernetes' own types, and no directories of logs. The kubelet then gets another
// token, and then fails: the names stay.
func TestKubelet(t *testing.T) {
	var pods atomic.Pointer[core.PodList]
	var token atomic.Pointer[string]
	var fails atomic.Bool
	useToken := func(s string) { token.Store(&s) }
	useToken("first")
	pods.Store(&core.PodList{TypeMeta: meta.TypeMeta{Kind: "PodList", APIVersion: "v1"}})
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+*token.Load():
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		case fails.Load():
			fmt.Fprint(w, `{"kind": "PodList", "items": [`)
		default:
			json.NewEncoder(w).Encode(pods.Load())
		}
	}))
	defer kubelet.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "first")
	write(t, filepath.Join(dir, "kubelet.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw})))
	n := startNode(t, fmt.Sprintf(`[page-faults]
kubelet: {url: '%s/pods', token_file: %s/token, ca_file: %[2]s/kubelet.crt, server_name: example.com, every: 1s}`, kubelet.URL, dir))
	await := func(want string) {
		t.Helper()
		server.Await(t, want, func() string {
			if metrics := n.metrics(); !strings.Contains(metrics, want) {
				return metrics
			}
			return ""
		})
	}
	series := func(p *running) string {
		return fmt.Sprintf(`bperf_container_events_total{cgroup="",container="%s",container_id="%s",event="page-faults",namespace="%s",pod="%s",pod_uid="%s"}`,
			pod.Container, p.ID, pod.Namespace, p.Name, p.UID)
	}
	start := func(name string) *running {
		p := startPod(t, name, 16)
		next := pods.Load().DeepCopy()
		next.Items = append(next.Items, p.object())
		pods.Store(next)
		return p
	}
	first := start("web-0")
	await(series(first))
	useToken("second")
	server.Await(t, "the kubelet refuses the old token", func() string {
		if strings.Contains(n.metrics(), `bperf_kubelet_requests_total{outcome="failed"} 0`) {
			return "no request failed"
		}
		return ""
	})
	write(t, filepath.Join(dir, "token"), "second")
	second := start("web-1")
	await(series(second))
	fails.Store(true)
	third := startPod(t, "web-2", 16)
	await(`container_id="` + third.ID + `",event="page-faults",namespace="",pod=""`)
	metrics := n.metrics()
	for _, p := range []*running{first, second} {
		if !strings.Contains(metrics, series(p)) {
			t.Errorf("%s has lost its names:\n%s", p.Name, metrics)
		}
	}
	if strings.Contains(metrics, "label") {
		t.Error("labels of pods are exported")
	}
}
