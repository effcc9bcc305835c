package main

import (
	"slices"
	"testing"

	"github.com/bperf/bperf/test/binaries"
)

// TestUnderRace checks which tests the race detector runs, and with them those that the step host leaves out beside it.
func TestUnderRace(t *testing.T) {
	for _, tt := range []struct {
		pkg, test string
		want      bool
	}{
		{"internal/replay", "TestReplay", true},
		{"perfdata", "FuzzFile", true},
		{"internal/script", "TestFieldsAsPerf", false},
		{"internal/cli", "TestStatShared", true},
		{"internal/cli", "TestStatSharedLead", false},
		{"internal/cli", "TestAnnotateLikePerf", false},
		{"test/e2e", "TestSharedTruth", false},
	} {
		if got := underRace(tt.pkg, tt.test); got != tt.want {
			t.Errorf("%s of %s under race: %t, want %t", tt.test, tt.pkg, got, tt.want)
		}
	}
}

// TestTestsOfPackage checks the names that are read from the files of a package.
func TestTestsOfPackage(t *testing.T) {
	packages, err := binaries.List("amd64", []string{"../perfdata", "../internal/sample"})
	if err != nil || len(packages) != 2 {
		t.Fatalf("%d packages: %v", len(packages), err)
	}
	var all []string
	for _, p := range packages {
		tests, err := p.Tests()
		if err != nil {
			t.Error(err)
		}
		all = append(all, tests...)
	}
	for name, want := range map[string]bool{"TestNothingLost": true, "FuzzFile": true, "ExampleFeatures": true, "TestMain": false, "BenchmarkRead": false} {
		if slices.Contains(all, name) != want {
			t.Errorf("%s among the tests: %t, want %t", name, !want, want)
		}
	}
}
