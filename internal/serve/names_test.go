package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestKubeletFails checks that the metrics and the page say that the kubelet refuses.
func TestKubeletFails(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<secret>", http.StatusUnauthorized) }))
	defer refuses.Close()
	s := simulate(t, `{events: [page-faults], profile: {event: ""}, kubelet: {url: "`+refuses.URL+`/pods"}}`)
	for deadline := time.Now().Add(3 * time.Minute); s.kubelet.Stats().Failed == 0 || s.current.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the kubelet was not asked within 3 minutes")
		}
	}
	metrics := s.metrics()
	for _, want := range []string{`bperf_kubelet_requests_total{outcome="failed"} 1`, `bperf_kubelet_requests_total{outcome="succeeded"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, "bperf_kubelet_last_success") {
		t.Error("there is a time of success without one")
	}
	for !strings.Contains(drawn(s.Daemon), "What does not work here") { // the first snapshot
		time.Sleep(time.Millisecond)
	}
	if page := drawn(s.Daemon); !strings.Contains(page, "New containers may have no names: ask "+refuses.URL+"/pods for the pods: the answer is 401 Unauthorized") {
		t.Errorf("the page does not say why:\n%s", page)
	}
}
