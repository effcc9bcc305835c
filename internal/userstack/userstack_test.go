package userstack

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// mapsOnly holds the maps without a program that reads them.
func mapsOnly(t *testing.T, limits Limits) map[string]*ebpf.Map {
	t.Helper()
	require.Root(t)
	spec, err := loadUserstack()
	if err != nil {
		t.Fatal(err)
	}
	limits.Resize(spec)
	spec.Programs, spec.Variables = nil, nil
	for _, name := range []string{".rodata", ".bss", userstackMapSamples} {
		delete(spec.Maps, name)
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.Maps
}

func newTables(t *testing.T, limits Limits) *Tables {
	t.Helper()
	tables, err := New(mapsOnly(t, limits), nil, limits, All, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tables.Close(); err != nil {
			t.Error(err)
		}
	})
	return tables
}

// code returns a record for the code of the test program for this architecture.
func (t *Tables) code(pid int32, start, length uint64) {
	path, offset := "testdata/deep-amd64", uint64(0)
	if t.arch == unwind.ARM64 {
		path = "testdata/deep-arm64"
	}
	dir, _ := os.Getwd()
	t.Record(&perfdata.Mmap2{PID: pid, TID: pid, Start: start, Length: length, Offset: offset, Inode: 1, Filename: dir + "/" + path})
}

// entries returns the mappings of a process that programs find.
func (t *Tables) entries(test *testing.T, pid int32) (found []mappingEntry) {
	test.Helper()
	if err := t.Update(0); err != nil {
		test.Fatal(err)
	}
	var p processEntry
	if err := t.maps.processes.Lookup(uint32(pid), &p); err != nil {
		return nil
	}
	for i := range p.Count {
		var m mappingEntry
		if err := t.maps.mappings.Lookup(p.First+i, &m); err != nil {
			test.Fatal(err)
		}
		found = append(found, m)
	}
	return found
}

func ranges(entries []mappingEntry) (starts []uint64) {
	for _, m := range entries {
		starts = append(starts, m.Start, m.End)
	}
	return starts
}

// TestTooLate has no time to build tables. The next Update builds them.
func TestTooLate(t *testing.T) {
	tables := newTables(t, Limits{Processes: 8, Mappings: 16, Tables: 4, Rules: 64, Rows: 1000, Files: 1 << 20})
	tables.code(1, 0x10000, 0x4000)
	if err := tables.Update(time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Processes != 0 || s.Tables != 0 || s.String() != "" {
		t.Errorf("there was no time: %+v", s)
	}
	if got := ranges(tables.entries(t, 1)); !slices.Equal(got, []uint64{0x10000, 0x14000}) {
		t.Errorf("there was time: %#x", got)
	}
}

// TestProcesses has processes that map files, fork, call execve(2) and exit.
func TestProcesses(t *testing.T) {
	tables := newTables(t, Limits{Processes: 8, Mappings: 16, Tables: 4, Rules: 64, Rows: 1000, Files: 1 << 20})
	expect := func(what string, pid int32, want ...uint64) {
		t.Helper()
		if got := ranges(tables.entries(t, pid)); !slices.Equal(got, want) {
			t.Errorf("%s: process %d has %#x, not %#x", what, pid, got, want)
		}
	}
	tables.code(1, 0x30000, 0x1000)
	tables.code(1, 0x10000, 0x4000)
	expect("mapped", 1, 0x10000, 0x14000, 0x30000, 0x31000)
	bias := tables.entries(t, 1)[0].Bias
	tables.Record(&perfdata.Mmap2{PID: 1, Start: 0x11000, Length: 0x1000, Filename: "//anon"})
	expect("anonymous memory instead of it", 1, 0x10000, 0x11000, 0x12000, 0x14000, 0x30000, 0x31000)
	if e := tables.entries(t, 1); e[0].Bias != bias || e[1].Bias != bias || e[1].Table != e[0].Table {
		t.Errorf("what is left of a mapping: %+v", e)
	}
	tables.Record(&perfdata.Mmap2{PID: 1, Start: 0x30000, Length: 0x1000, Filename: "[heap]", Data: true})
	expect("data do not matter", 1, 0x10000, 0x11000, 0x12000, 0x14000, 0x30000, 0x31000)
	tables.Record(&perfdata.Fork{PID: 2, ParentPID: 1, TID: 2, ParentTID: 1})
	tables.Record(&perfdata.Fork{PID: 1, ParentPID: 1, TID: 3, ParentTID: 1}) // a thread
	expect("forked", 2, 0x10000, 0x11000, 0x12000, 0x14000, 0x30000, 0x31000)
	tables.Record(&perfdata.Comm{PID: 2, TID: 2, Exec: true})
	tables.code(2, 0x50000, 0x1000)
	expect("executed something", 2, 0x50000, 0x51000)
	tables.Record(&perfdata.Comm{PID: 2, TID: 2, Comm: "renamed"})
	tables.Record(&perfdata.Fork{PID: 2, ParentPID: 1, TID: 2, ParentTID: 1})
	expect("a fork that is reported late", 2, 0x50000, 0x51000)
	tables.Record(&perfdata.Exit{PID: 1, TID: 3})
	expect("a thread ended", 1, 0x10000, 0x11000, 0x12000, 0x14000, 0x30000, 0x31000)
	tables.Record(&perfdata.Exit{PID: 1, TID: 1})
	tables.Record(&perfdata.Exit{PID: 2, TID: 2})
	expect("ended", 1)
	expect("ended", 2)
	s := tables.Stats()
	if s.Processes != 0 || s.Mappings != 0 || s.Tables != 1 || s.Rows == 0 || s.Rules < 5 || s.String() != "" || len(tables.processes) != 0 {
		t.Errorf("%+v", s)
	}
	if len(tables.unused) != 1 || tables.unused[0].users != 0 {
		t.Errorf("the file is not free: %+v", tables.unused)
	}
	if err := tables.dropUnused(1); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Tables != 0 || s.Rows != 0 || len(tables.files) != 0 || !slices.Equal(tables.indexes.free, []run{{0, 4}}) {
		t.Errorf("%+v; %v", s, tables.indexes.free)
	}
}

// TestLimits exceeds each limit, and expects a report.
func TestLimits(t *testing.T) {
	enough := Limits{Processes: 8, Mappings: 16, Tables: 4, Rules: 64, Rows: 1000, Files: 1 << 20}
	for _, test := range []struct {
		change func(*Limits)
		want   string
		first  bool // process 1 is in the maps despite that
	}{
		{func(l *Limits) { l.Processes = 1 }, "1 times there was no room for the mappings of a process; the first: there are more than 1 processes", true},
		{func(l *Limits) { l.Mappings = 2 }, "more than 2 parts of files", true},
		{func(l *Limits) { l.Rules = 2 }, "1 files have unwind tables for which there was no room; the first: ", false},
		{func(l *Limits) { l.Rows = 5 }, "tables have more than 5 rows", false},
	} {
		limits := enough
		test.change(&limits)
		tables := newTables(t, limits)
		for pid := int32(1); pid <= 2; pid++ {
			tables.code(pid, 0x10000, 0x1000)
			if pid == 1 {
				tables.code(pid, 0x20000, 0x1000)
				tables.entries(t, pid)
			}
		}
		if got := len(tables.entries(t, 2)); got != 0 {
			t.Errorf("%s: %d mappings of the second process", test.want, got)
		}
		if got := len(tables.entries(t, 1)); (got == 2) != test.first {
			t.Errorf("%s: %d mappings of the first process", test.want, got)
		}
		if got := tables.Stats().String(); !strings.Contains(got, test.want) {
			t.Errorf("%q, not %q", got, test.want)
		}
		// When process 1 has ended, there is room.
		tables.Record(&perfdata.Exit{PID: 1, TID: 1})
		tables.entries(t, 1)
		tables.code(2, 0x10000, 0x1000)
		if got := len(tables.entries(t, 2)); (got == 1) != test.first {
			t.Errorf("%s: %d mappings of the second process afterwards", test.want, got)
		}
	}
}

// TestForget has short-lived processes with a file each. Only files used since the last Forget keep tables and descriptors.
func TestForget(t *testing.T) {
	tables := newTables(t, Limits{Processes: 64, Mappings: 64, Tables: 256, Rules: 64, Rows: 100_000, Files: 1 << 20})
	const each = 10 // between two calls
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := descriptors()
	dir, _ := os.Getwd()
	path := map[unwind.Arch]string{unwind.AMD64: "deep-amd64", unwind.ARM64: "deep-arm64"}[tables.arch]
	for pid := int32(1); pid <= 200; pid++ {
		tables.Record(&perfdata.Mmap2{PID: pid, TID: pid, Start: 1 << 20, Length: 0x4000, Inode: uint64(pid), Filename: dir + "/testdata/" + path})
		if got := tables.entries(t, pid); len(got) != 1 {
			t.Fatalf("process %d: %d mappings", pid, len(got))
		}
		tables.Record(&perfdata.Exit{PID: pid, TID: pid})
		tables.entries(t, pid)
		if pid%each != 0 {
			continue
		}
		if err := tables.Forget(); err != nil {
			t.Fatal(err)
		}
		if s := tables.Stats(); s.Tables > each || len(tables.files) > each {
			t.Fatalf("after %d processes there are %d tables of %d files", pid, s.Tables, len(tables.files))
		}
		if n := descriptors() - before; n > 2*each {
			t.Fatalf("after %d processes %d more descriptors are open", pid, n)
		}
	}
}

// TestFiles has mappings of files that are not ELF, of another machine's files, and of missing files.
func TestFiles(t *testing.T) {
	tables := newTables(t, Limits{Processes: 8, Mappings: 16, Tables: 4, Rules: 64, Rows: 1000, Files: 1 << 20})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	other := map[unwind.Arch]string{unwind.AMD64: "deep-arm64", unwind.ARM64: "deep-amd64"}[tables.arch]
	for i, name := range []string{dir + "/testdata/" + other, dir + "/gone", "//anon", "[stack]", "[vsyscall]", "/dev/zero (deleted)"} {
		tables.Record(&perfdata.Mmap2{PID: 1, Start: uint64(i+1) << 16, Length: 0x1000, Inode: uint64(i), Filename: name})
	}
	if got := tables.entries(t, 1); got != nil || tables.Stats().String() != "" {
		t.Errorf("%+v; %s", got, tables.Stats())
	}
	tables.Record(&perfdata.Mmap2{PID: 1, Start: 1 << 20, Length: 0x1000, Inode: 1, Filename: dir + "/testdata/deep.c"})
	if got := tables.entries(t, 1); got != nil || !strings.Contains(tables.Stats().String(), "1 files could not be read for unwind tables; the first: ") {
		t.Errorf("%+v; %s", got, tables.Stats())
	}
}

func TestRuns(t *testing.T) {
	r := newRuns(10)
	a, _ := r.take(3)
	b, _ := r.take(4)
	c, ok := r.take(3)
	if a != (run{0, 3}) || b != (run{3, 4}) || c != (run{7, 3}) || !ok {
		t.Fatalf("%v %v %v", a, b, c)
	}
	if _, ok := r.take(1); ok {
		t.Error("more than there is")
	}
	r.give(run{}) // of a process that has none
	r.give(a)
	r.give(c)
	if _, ok := r.take(4); ok {
		t.Error("what does not lie together")
	}
	r.give(b)
	if !slices.Equal(r.free, []run{{0, 10}}) {
		t.Errorf("free: %v", r.free)
	}
}
