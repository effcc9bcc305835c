package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/event/eventfile"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/test/require"
)

// The kernel's files, read as a user's directory, have what the tables in the program have, with descriptions. Short runs do not fetch the
// files.
func TestUsersDirectory(t *testing.T) {
	if arch, err := inCache(); err != nil {
		t.Fatal(err)
	} else if _, err := os.Stat(arch); err != nil && !require.Long() {
		t.Skipf("needs the kernel's files: fetch them: go generate ./internal/event/vendor (%v)", err)
	}
	arch, err := fetch()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range map[string][]string{
		"amd64": {"GenuineIntel-6-1C-1", "GenuineIntel-6-2A-7", "GenuineIntel-6-55-4", "GenuineIntel-6-55-7", "GenuineIntel-6-C6-2", "AuthenticAMD-25-61-2"},
		"arm64": {"0x00000000410fd0c0", "0x00000000410fd400", "0x00000000480fd010"},
	}[runtime.GOARCH] {
		files := &eventfile.Source{Dir: filepath.Join(arch, architectures[runtime.GOARCH]), Named: true}
		got, warnings, err := files.Load(cpu)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %q, %v", cpu, warnings, err)
			continue
		}
		table, err := vendor.ForCPU(cpu)
		if err != nil {
			t.Fatal(err)
		}
		events, described := 0, 0
		for _, pmu := range table.PMUs() {
			for want := range table.Events(pmu) {
				if want.Compat != "" {
					continue // of systems on chips, whose files are not a model's
				}
				e, _ := got.Event(pmu, want.Name)
				if events++; e.Text != nil {
					described++
				}
				e.Text = nil
				if diff := cmp.Diff(want, e); diff != "" {
					t.Errorf("%s: (-table +files)\n%s", cpu, diff)
				}
			}
		}
		if events == 0 || described < events*9/10 {
			t.Errorf("%s: %d of %d events are described", cpu, described, events)
		}
	}
}
