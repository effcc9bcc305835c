package replay

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// TestReplacedFile has samples of a file that still exists, and of one that was replaced. Only a build ID shows which file it is.
func TestReplacedFile(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	major, minor, inode, _, err := object.Identity(self)
	if err != nil {
		t.Fatal(err)
	}
	buildID, err := object.Search{}.BuildID(self)
	if err != nil {
		t.Fatal(err)
	}
	const start, nobody = 0x10000, 1<<31 - 1 // no process has this ID
	for _, tt := range []struct {
		name    string
		inode   uint64
		buildID []byte
		warned  bool
	}{
		{"the same", inode, nil, false},
		{"replaced", inode + 1, nil, true},
		{"replaced, with a build ID", inode + 1, buildID, false},
	} {
		reader := written(t, chainEvent(), func(w *perfdata.Writer) {
			at := perfdata.SampleID{PID: nobody, TID: nobody}
			w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: nobody, TID: nobody, Start: start, Length: 0x1000, Protection: protExec, Filename: self,
				Major: major, Minor: minor, Inode: tt.inode, BuildID: tt.buildID, SampleID: at})
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: at, IP: start})
		})
		r := New(reader, Options{})
		if _, err := r.Profile(0); err != nil {
			t.Fatal(err)
		}
		problems := r.problems()
		if warned := slices.ContainsFunc(problems, func(s string) bool { return strings.Contains(s, "may be another build") }); warned != tt.warned {
			t.Errorf("%s: problems %q", tt.name, problems)
		}
	}
}
