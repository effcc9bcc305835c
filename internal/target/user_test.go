package target

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestUser lists processes of several users, with one whose other IDs differ from its effective one, one that has just ended, and an entry
// that is not a process.
func TestUser(t *testing.T) {
	root := fstest.MapFS{}
	for name, status := range map[string]string{
		"7": "Name:\tsh\nUid:\t1000\t1000\t1000\t1000\n", "12": "Name:\tsu\nUid:\t1000\t0\t0\t0\n", "13": "Uid:\t0\t1000\t0\t0\n", "14": "Name:\tgone\n", "15": "Uid:\t1000",
		"self": "Uid:\t1000\t1000\t1000\t1000\n", "16": "Uid:\t1000\t1000\t1000\t1000\n", "17": "Uid:\t1001\t1001\t1001\t1001\n",
	} {
		root["proc/"+name+"/status"] = &fstest.MapFile{Data: []byte(status)}
		if name != "16" && name != "17" {
			root["proc/"+name+"/comm"] = &fstest.MapFile{Data: []byte("name\n")}
			root["proc/"+name+"/task/"+name+"/comm"] = &fstest.MapFile{Data: []byte("name\n")}
		}
	}
	for user, want := range map[string][]int{"1000": {7, 13}, "0": {12}, "root": {12}} {
		got, err := Spec{User: user}.resolve(root)
		var pids []int
		for _, thread := range got.Threads {
			pids = append(pids, thread.PID)
		}
		if err != nil || !slices.Equal(pids, want) {
			t.Errorf("%s: %v, %v; want %v", user, pids, err, want)
		}
	}
	for user, want := range map[string]string{"4000000000": "the user 4000000000 has no processes", "1001": "the user 1001 has no processes", "no such user": `look up the user "no such user"`} {
		if _, err := (Spec{User: user}).resolve(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", user, err, want)
		}
	}
}
