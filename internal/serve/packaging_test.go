package serve

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/settings"
)

// exported returns the names of all metrics that a daemon may export.
func exported(t *testing.T) []string {
	t.Helper()
	d, err := New(Config{Log: io.Discard, Change: func(s *settings.Settings) {
		s.Listen, s.Kubelet.URL = []string{"unix:" + filepath.Join(t.TempDir(), "socket")}, "https://127.0.0.1:10250/pods"
	}})
	check(t, err)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		d.own.Describe(descriptions)
	}()
	names := metrics.Names()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for description := range descriptions {
		names = append(names, name.FindStringSubmatch(description.String())[1])
	}
	return names
}

// TestPackagedNames checks that bperf exports each metric that the dashboard, the rules and their documentation name.
func TestPackagedNames(t *testing.T) {
	known := exported(t)
	used := regexp.MustCompile(`[a-z_:]*\bbperf_[a-z_:]+`)
	for _, file := range []string{"packaging/grafana/bperf.json", "packaging/prometheus/bperf.rules.yml", "docs/serve.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		check(t, err)
		found := 0
		for _, name := range used.FindAllString(string(text), -1) {
			if regexp.MustCompile(`:|_$`).MatchString(name) { // of a rule, or a part of a name
				continue
			}
			found++
			if !slices.Contains(known, name) {
				t.Errorf("%s names %s, which bperf does not export", file, name)
			}
		}
		if found < 10 {
			t.Errorf("%s names only %d metrics", file, found)
		}
	}
}
