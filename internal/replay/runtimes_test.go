package replay

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// TestMapWriters checks what a missing perf map says of the runtime that should have written it, whether the runtime or its code is mapped
// first.
func TestMapWriters(t *testing.T) {
	m := newMachine(&symbols{replay: &Replay{}})
	feed := func(v perfdata.Value) { m.apply(&perfdata.Record{Misc: perfdata.MiscUser, Value: v}) }
	maps := func(pid int32, file string, start uint64, protection uint32) {
		feed(&perfdata.Mmap2{PID: pid, TID: pid, Start: start, Length: 0x1000, Protection: protection, Filename: file})
	}
	maps(10, "//anon", 0x1000, protExec)
	maps(10, "/usr/lib/jvm/lib/server/libjvm.so", 0x8000, protExec)
	maps(11, "/usr/bin/node", 0x1000, protExec)
	maps(11, "//anon", 0x8000, protExec)
	feed(&perfdata.Fork{PID: 12, TID: 12, ParentPID: 11, ParentTID: 11})
	maps(12, "//anon", 0x9000, protExec)
	feed(&perfdata.Fork{PID: 13, TID: 13, ParentPID: 11, ParentTID: 11})
	feed(&perfdata.Comm{PID: 13, TID: 13, Comm: "other", Exec: true})
	maps(13, "//anon", 0x9000, protExec)
	maps(14, "/usr/lib/libnode.so.108", 0x1000, protExec)
	maps(14, "//anon", 0x8000, protExec)
	maps(15, "/srv/node", 0x1000, 0) // a file that is only read
	maps(15, "/srv/nodes.so", 0x2000, protExec)
	maps(15, "//anon", 0x8000, protExec)
	for pid, want := range map[int32]string{10: "jcmd PID Compiler.perfmap", 11: "--perf-basic-prof", 12: "--perf-basic-prof", 13: "", 14: "--perf-basic-prof", 15: ""} {
		code := m.dso(dsoKey{pid: pid}, func(*DSO) { t.Errorf("process %d has no code in memory", pid) }).names.(*perfMapCode)
		missing := code.runtime.explain(fs.ErrNotExist).Error()
		if how := strings.TrimPrefix(missing, fs.ErrNotExist.Error()); !strings.Contains(how, want) || want == "" && how != "" {
			t.Errorf("process %d: %s, want %q", pid, missing, want)
		}
		if err := code.runtime.explain(os.ErrPermission); err != os.ErrPermission {
			t.Errorf("process %d: a map that it may not read: %v", pid, err)
		}
	}
}
