package userstack

import (
	"os/exec"
	"testing"
)

// TestPrepare makes the tables of a program that is not yet started: when it is, none of the files that it has mapped is read again.
func TestPrepare(t *testing.T) {
	tables := newTables(t, DefaultLimits)
	if err := tables.Prepare("cat"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	if _, err := in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it runs, with all that it has mapped
		t.Fatal(err)
	}
	files := 0
	for _, r := range mapsOf(t, cmd.Process.Pid) {
		if r.Inode == 0 {
			continue
		}
		files++
		if _, id := tables.identify(r); tables.files[id] == nil {
			t.Errorf("%s: there are only %v", r.Filename, tables.files)
		}
	}
	if files == 0 {
		t.Error("it has mapped no file")
	}
	if stats := tables.Stats(); stats.FilesUnread > 0 {
		t.Error(stats)
	}
}
