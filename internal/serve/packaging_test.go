package serve

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// exported returns the names of all metrics that a daemon may export, from the source.
func exported(t *testing.T) (names []string) {
	t.Helper()
	described := regexp.MustCompile(`NewDesc\("(bperf_\w+)"`)
	for _, dir := range []string{".", "metrics"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		check(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			check(t, err)
			for _, match := range described.FindAllSubmatch(source, -1) {
				names = append(names, string(match[1]))
			}
		}
	}
	return names
}

// TestPackagedNames checks that bperf exports each metric that the dashboard, the rules and their documentation name.
func TestPackagedNames(t *testing.T) {
	require.NoKernel(t)
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
