package userstack

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// TestManyMappings has a process with many mappings. Each takes memory once.
func TestManyMappings(t *testing.T) {
	const count, most = 5000, 2000 // bytes for each
	tables := &Tables{processes: make(map[int32]*process), changed: make(map[int32]bool)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range uint64(count) {
		tables.Record(&perfdata.Mmap2{PID: 1, TID: 1, Start: i << 13, Length: 1 << 12, Inode: 1, Filename: "/a"})
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / count; n > most {
		t.Errorf("each mapping takes %d bytes, more than %d", n, most)
	}
	tables.Record(&perfdata.Mmap2{PID: 1, TID: 1, Start: 1<<13 + 0x800, Length: 2 << 13, Inode: 1, Filename: "/b"})
	got := tables.processes[1].mappings
	if len(got) != count || got[1].end != 1<<13+0x800 || got[2].record.Filename != "/b" || got[3].start != 3<<13+0x800 {
		t.Errorf("%d mappings; around the one that replaced others: %+v", len(got), got[:5])
	}
}

// TestFilesOfProcess has processes for which only the first new file may be read. The limit of one process must not affect others.
func TestFilesOfProcess(t *testing.T) {
	limits := DefaultLimits
	limits.Files = 1
	tables := newTables(t, limits)
	const start, length = 1 << 20, 1 << 16
	for pid := range int32(4) {
		for i := range 3 {
			tables.Record(&perfdata.Mmap2{PID: pid, TID: pid, Start: uint64(1+i) * start, Length: length, Inode: uint64(1 + i), Filename: fmt.Sprint("/missing", i)})
		}
		if err := tables.Update(0); err != nil {
			t.Fatal(err)
		}
		if got, want := len(tables.files), min(3, 1+int(pid)); got != want {
			t.Errorf("after process %d, %d files are known, want %d", pid, got, want)
		}
		if got, want := tables.Stats().FilesUnread, []int{2, 3, 3, 3}[pid]; got != want {
			t.Errorf("after process %d, %d files are unread, want %d: %v", pid, got, want, tables.Stats())
		}
	}
	if err := tables.Stats().First; err == nil || !strings.Contains(err.Error(), "/missing1: for one process, here 0,") {
		t.Error(err)
	}
	for pid := range int32(4) {
		tables.Record(&perfdata.Exit{PID: pid, TID: pid})
	}
	for range 2 {
		if err := errors.Join(tables.Update(0), tables.Forget()); err != nil {
			t.Fatal(err)
		}
	}
	if len(tables.files)+len(tables.unused) > 0 {
		t.Errorf("after all processes have ended: %v, %v", tables.files, tables.unused)
	}
}
