package target

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProcessesOf has processes of several users, one with other IDs than its effective one, and what is no process.
func TestProcessesOf(t *testing.T) {
	proc := t.TempDir()
	for name, status := range map[string]string{
		"7": "Name:\tsh\nUid:\t1000\t1000\t1000\t1000\n", "12": "Name:\tsu\nUid:\t1000\t0\t0\t0\n", "13": "Uid:\t0\t1000\t0\t0\n", "14": "Name:\tgone\n", "15": "Uid:\t1000",
		"self": "Uid:\t1000\t1000\t1000\t1000\n",
	} {
		if err := os.MkdirAll(filepath.Join(proc, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, name, "status"), []byte(status), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string][]int{"1000": {7, 13}, "0": {12}, "root": {12}} {
		got, err := processesOf(proc, user)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", user, got, err, want)
		}
	}
	if _, err := processesOf(proc, "4000000000"); !errors.Is(err, errNoProcesses) {
		t.Error(err)
	}
	if _, err := processesOf(proc, "no such user"); err == nil || !strings.Contains(err.Error(), `look up the user "no such user"`) {
		t.Error(err)
	}
}
