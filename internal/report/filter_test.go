package report

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
)

func TestIgnoreCallees(t *testing.T) {
	o := Options{IgnoreCallees: regexp.MustCompile(`^(main\.serve|vfs_)`)}
	if !o.NeedsStacks() {
		t.Error("needs no stacks")
	}
	p := mixed(profile.Comm, 1)
	o.CutCallees(p)
	var got bytes.Buffer
	if err := WriteFolded(&got, p, &o); err != nil {
		t.Fatal(err)
	}
	want := "other;[unknown] 500\nserver;main.main;[server] 1000\nserver;main.main;main.serve 19500\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
