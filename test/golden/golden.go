// Package golden compares results of tests with golden files.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is a flag of each test binary that imports the package: go test PACKAGE -update
var update = flag.Bool("update", false, "write the golden files")

// Updating reports whether Compare writes golden files.
func Updating() bool { return *update }

// Compare fails the test if got differs from the file's content. With -update, it writes got to the file first.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
