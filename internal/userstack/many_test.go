package userstack

import (
	"runtime"
	"testing"

	"github.com/bperf/bperf/internal/perfdata"
)

// TestManyMappings has a process with many mappings: each takes memory once.
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
		t.Errorf("%d mappings; around the one in the place of others: %+v", len(got), got[:5])
	}
}
