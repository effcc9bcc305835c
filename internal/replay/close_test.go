package replay

import (
	"os"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// TestClose has a file that is mapped while its symbols are looked up, and is unmapped with the replay.
func TestClose(t *testing.T) {
	file := t.TempDir() + "/file"
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	isMapped := func() bool {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(maps), file)
	}
	const start, nobody = 0x10000, 1<<31 - 1 // no process has this ID
	reader := written(t, chainEvent(), func(w *perfdata.Writer) {
		at := perfdata.SampleID{PID: nobody, TID: nobody}
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: nobody, TID: nobody, Start: start, Length: 0x1000, Protection: protExec, Filename: file, SampleID: at})
		w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: at, IP: start})
	})
	r := New(reader, Options{})
	if _, err := r.Profile(0); err != nil {
		t.Fatal(err)
	}
	if !isMapped() {
		t.Errorf("%s was not mapped; problems %q", file, r.problems())
	}
	if r.Close(); isMapped() {
		t.Errorf("%s is still mapped", file)
	}
}
