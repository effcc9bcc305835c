package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionFrom(t *testing.T) {
	const placeholders = "$Format:%(describe:tags)$\n$Format:%h$\n$Format:%ct$\n"
	recorded := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "github.com/bperf/bperf", Version: version}}
	}
	for _, c := range []struct {
		name   string
		info   *debug.BuildInfo
		source string
		want   string
	}{
		{"go install at a version", recorded("v1.2.3"), placeholders, "v1.2.3"},
		{"checkout", recorded("v0.0.0-20260102150405-abc1234def56+dirty"), placeholders, "v0.0.0-20260102150405-abc1234def56+dirty"},
		{"archive of a tag", recorded("(devel)"), "v1.2.3\nabc1234\n1767366245\n", "v1.2.3"},
		{"archive before the first tag", recorded("(devel)"), "\nabc1234\n1767366245\n", "abc1234"},
		{"go run", recorded("(devel)"), placeholders, "(devel)"},
		{"no module", recorded(""), placeholders, "unknown"},
		{"no build info", nil, placeholders, "unknown"},
	} {
		if got := versionFrom(c.info, c.source); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
