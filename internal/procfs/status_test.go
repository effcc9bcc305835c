package procfs

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestStatus(t *testing.T) {
	proc := fstest.MapFS{"7/status": {Data: []byte("Name:\ta b\nTgid:\t7\nUid:\t1\t2\t3\t4\nEmpty:\n")}}
	status, err := ReadStatus(proc, "7")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Name": "a b", "Tgid": "7", "Uid": "1\t2\t3\t4", "Empty": "", "None": "", "Na": ""} {
		if got := status.Field(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got, err := status.Need("Tgid"); got != "7" || err != nil {
		t.Errorf("Tgid is %q, error %v", got, err)
	}
	if _, err := status.Need("None"); err == nil || err.Error() != "has no line None" {
		t.Errorf("a line that is not there: error %v", err)
	}
	if _, err := ReadStatus(proc, "8"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is not there: error %v", err)
	}
}
