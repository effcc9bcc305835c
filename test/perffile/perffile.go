// Package perffile writes recordings for tests, with what test machines cannot record.
package perffile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// Write writes a recording with these events and features into a temporary directory, and returns its path. records writes the records; it
// does not need to check errors of the Writer, because Write does.
func Write(t testing.TB, events []*perfdata.Event, features map[perfdata.FeatureID]perfdata.FeatureValue,
	records func(w *perfdata.Writer)) (path string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "perf.data")
	file, err := os.Create(path)
	check(err)
	defer file.Close()
	w, err := perfdata.NewWriter(file, perfdata.Options{Events: events})
	check(err)
	for id, v := range features {
		check(w.SetFeature(id, v))
	}
	records(w)
	check(w.Close()) // reports the errors of all writes
	return path
}
