// Package userstack lets BPF programs walk user stacks of programs without frame pointers (bpf/unwind.h). It makes tables of the call frame
// information of the files that processes have mapped, and keeps them in BPF maps as long as they are used.
//
// Which processes need it is told by their files. On x86-64 a file needs a table if less than nine tenths of its code that moves the stack pointer
// keep a frame pointer; on arm64, where functions that call no others leave the return address in a register, each file that has
// call frame information does. A process that has none of these is left to its frame pointers: programs of Go are such. Files are read when a
// stack of a process that has mapped them is first walked.
//
// It needs Linux 5.17, and root or CAP_BPF, CAP_PERFMON, and for the files of others CAP_SYS_PTRACE and CAP_SYS_ADMIN.
package userstack

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// End says why a stack ends: enum unwind_end of bpf/unwind.h. All but Outermost say that it is cut.
type End uint32

const (
	Outermost  End = iota // there are no more callers
	NoTable               // the code has no table, nor frame pointers
	NoRule                // its table cannot tell, and there is no frame pointer
	Unreadable            // the stack is not in memory, or not where the table says
	Broken                // it leads back to where it was
	TooDeep               // it has more than 127 frames
	NoAddress             // a return address is none, as code without frame pointers has them there
	Ends                  // how many there are
)

func (e End) String() string {
	return [...]string{"outermost frame", "no unwind table", "no rule in the unwind table", "unreadable stack", "broken frame", "too deep", "an entry that is not an address"}[e]
}

// Names of the maps in bpf/unwind.h.
const (
	mapProcesses = "unwind_processes"
	mapWanted    = "unwind_wanted"
	mapMappings  = "unwind_mappings"
	mapTables    = "unwind_tables"
	mapRules     = "unwind_rules"
)

// Limits are how much there is room for. Memory is taken for all but the rows at once: 2.8 MB for those of DefaultLimits.
type Limits struct {
	Processes uint32
	Mappings  uint32 // of all processes: parts of files with a table
	Tables    uint32
	Rules     uint32
	Rows      int // of all tables, of 8 bytes each
	Files     int // bytes of call frame information, and 16 KiB for each file, that are read for what one process has mapped
}

// DefaultLimits are enough for some thousand processes. All programs and libraries of a Debian system with a desktop have ten million rows, and Chrome has
// 20 MB of call frame information.
var DefaultLimits = Limits{Processes: 8192, Mappings: 32768, Tables: 2048, Rules: 32768, Rows: 16 << 20, Files: 48 << 20}

// Stats are what is in the maps, and what there was no room for.
type Stats struct {
	Processes, Mappings, Tables, Rules, Rows int

	ProcessesLeftOut int // times that there was no room for a process, or for what it has mapped
	FilesLeftOut     int // for whose tables there was no room
	FilesUnread      int // that could not be read
	First            error
}

// String says what was left out; it is empty if nothing was.
func (s Stats) String() string {
	var parts []string
	add := func(n int, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(s.ProcessesLeftOut, "%d times there was no room for the mappings of a process")
	add(s.FilesLeftOut, "%d files have unwind tables for which there was no room")
	add(s.FilesUnread, "%d files could not be read for unwind tables")
	if s.First != nil {
		parts = append(parts, "the first: "+s.First.Error())
	}
	return strings.Join(parts, "; ")
}

// Tables are the maps of a BPF program that includes bpf/unwind.h. They are not safe for concurrent use.
type Tables struct {
	processesMap, wantedMap, mappingsMap, tablesMap, rulesMap *ebpf.Map

	arch      unwind.Arch
	search    object.Search
	limits    Limits
	eager     bool
	processes map[int32]*process
	changed   map[int32]bool // processes
	files     map[fileID]*file
	loaded    []*file // that are not in the map of tables yet
	unused    []*file // that no process has mapped, the oldest first
	rules     *rules
	mappings  *runs
	retired   []run // that a program may still read
	indexes   *runs // of tables
	rows      int
	stats     Stats
}

// process is what is mapped.
type process struct {
	mappings []mapping // sorted
	wanted   bool      // its stack is walked
	run      run       // of the map
	inMap    bool
	read     int // as Limits.Files counts it
}

// mapping is memory that a file is mapped to, or what is left of it.
type mapping struct {
	start, end uint64
	record     *perfdata.Mmap2
	file       *file // nil until the process is wanted
}

// Resize gives the maps of a collection their sizes, before it is loaded.
func (l Limits) Resize(spec *ebpf.CollectionSpec) {
	spec.Maps[mapProcesses].MaxEntries = l.Processes
	spec.Maps[mapWanted].MaxEntries = l.Processes
	spec.Maps[mapMappings].MaxEntries = l.Mappings
	spec.Maps[mapTables].MaxEntries = l.Tables
	spec.Maps[mapRules].MaxEntries = l.Rules
}

// New takes the maps of a loaded collection, which stay those of the caller. With eager, there are tables for all processes that records tell
// of; otherwise for those whose stacks a program has walked, from the next Update on. The allowance bounds the time that files take.
func New(maps map[string]*ebpf.Map, limits Limits, eager bool, a *allowance.Allowance) (*Tables, error) {
	t := &Tables{processesMap: maps[mapProcesses], wantedMap: maps[mapWanted], mappingsMap: maps[mapMappings], tablesMap: maps[mapTables],
		rulesMap: maps[mapRules], search: object.Search{Allowance: a}, limits: limits, eager: eager, processes: make(map[int32]*process),
		changed: make(map[int32]bool),
		files:   make(map[fileID]*file), rules: newRules(limits.Rules), mappings: newRuns(limits.Mappings), indexes: newRuns(limits.Tables)}
	switch runtime.GOARCH {
	case "amd64":
		t.arch = unwind.AMD64
	case "arm64":
		t.arch = unwind.ARM64
	default:
		return nil, fmt.Errorf("stacks are not unwound by tables on %s", runtime.GOARCH)
	}
	return t, nil
}

// Record takes what a record tells of processes: MMAP2 of code, FORK, COMM for execve(2), and EXIT. Programs see it after Update.
func (t *Tables) Record(r perfdata.Value) {
	switch r := r.(type) {
	case *perfdata.Mmap2:
		if !r.Data {
			t.mapped(r)
		}
	case *perfdata.Fork:
		if r.PID != r.ParentPID {
			t.fork(r.ParentPID, r.PID)
		}
	case *perfdata.Comm:
		if r.Exec {
			t.remove(r.PID)
		}
	case *perfdata.Exit:
		if r.PID == r.TID {
			t.remove(r.PID)
		}
	}
}

func (t *Tables) mapped(r *perfdata.Mmap2) {
	p := t.processes[r.PID]
	if p == nil {
		p = &process{wanted: t.eager}
		t.processes[r.PID] = p
	}
	end := r.Start + r.Length
	if end < r.Start {
		return
	}
	t.unmap(p, r.Start, end)
	t.changed[r.PID] = true
	if !isFile(r) {
		return
	}
	copied := *r // records are used again by who reads them
	i := sort.Search(len(p.mappings), func(i int) bool { return p.mappings[i].start >= end })
	p.mappings = slices.Insert(p.mappings, i, mapping{start: r.Start, end: end, record: &copied})
}

// unmap takes away what is mapped in a range.
func (t *Tables) unmap(p *process, start, end uint64) {
	first := sort.Search(len(p.mappings), func(i int) bool { return p.mappings[i].end > start })
	last := first
	var left []mapping
	for ; last < len(p.mappings) && p.mappings[last].start < end; last++ {
		m := p.mappings[last]
		for _, part := range []mapping{{m.start, start, m.record, m.file}, {end, m.end, m.record, m.file}} {
			if part.start < part.end {
				part.file.use()
				left = append(left, part)
			}
		}
		t.release(m.file)
	}
	p.mappings = slices.Replace(p.mappings, first, last, left...)
}

func (t *Tables) fork(parent, child int32) {
	from := t.processes[parent]
	if from == nil || t.processes[child] != nil { // records of CPUs can come out of order
		return
	}
	t.processes[child] = &process{mappings: slices.Clone(from.mappings), wanted: from.wanted, read: from.read}
	for _, m := range from.mappings {
		m.file.use()
	}
	t.changed[child] = true
}

func (t *Tables) remove(pid int32) {
	p := t.processes[pid]
	if p == nil {
		return
	}
	for _, m := range p.mappings {
		t.release(m.file)
	}
	p.mappings, p.wanted = nil, t.eager
	t.changed[pid] = true
}

// Update lets programs see what was recorded, and what they have asked for. The error is one of the kernel, which keeps it from going on;
// what there was no room for is told of by Stats. Tables are made for that long; those that are missing then are left to the next time. With 0 all
// are made, as long as the run is not to end.
func (t *Tables) Update(longest time.Duration) error {
	if !t.eager {
		if err := t.want(); err != nil {
			return err
		}
	}
	entries := make(map[int32][]mappingEntry)
	began := time.Now()
	late := func() bool { return t.search.Allowance.Ending() || longest > 0 && time.Since(began) > longest }
	for pid := range t.changed {
		those, err := t.load(t.processes[pid], late)
		if err == errLate {
			break
		}
		if err != nil {
			return err
		}
		entries[pid] = those
	}
	if err := t.publish(); err != nil {
		return err
	}
	for pid, those := range entries {
		p := t.processes[pid]
		old := p.run
		if err := t.place(pid, p, those); err != nil {
			return err
		}
		if old.count > 0 {
			t.retired = append(t.retired, old)
		}
		if len(p.mappings) == 0 {
			delete(t.processes, pid)
		}
		delete(t.changed, pid)
	}
	return t.unload()
}

var errLate = errors.New("there is no time for more unwind tables")

// want notes the processes whose stacks programs have walked without knowing them.
func (t *Tables) want() error {
	const batch = 256
	var cursor ebpf.MapBatchCursor
	pids, values := make([]uint32, batch), make([]uint8, batch)
	for {
		n, end := t.wantedMap.BatchLookupAndDelete(&cursor, pids, values, nil)
		if end != nil && !errors.Is(end, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the processes whose stacks are walked: %w", end)
		}
		for _, pid := range pids[:n] {
			if p := t.processes[int32(pid)]; p != nil && !p.wanted {
				p.wanted, t.changed[int32(pid)] = true, true
			}
		}
		if end != nil { // that was all
			return nil
		}
	}
}

// load makes the tables of a process, if it is wanted and needs any; errLate leaves it where it is, when it has become late. There are entries for the
// mappings of files that have one.
func (t *Tables) load(p *process, late func() bool) (entries []mappingEntry, err error) {
	if !p.wanted {
		return nil, nil
	}
	for i := range p.mappings {
		if m := &p.mappings[i]; m.file == nil {
			if late() {
				return nil, errLate
			}
			m.file = t.open(p, m.record)
		}
	}
	if !slices.ContainsFunc(p.mappings, func(m mapping) bool { return m.file.needed }) {
		return nil, nil
	}
	for _, m := range p.mappings {
		if m.file.loaded == nil && late() {
			return nil, errLate
		}
		if err := t.loadFile(m.file); err != nil {
			return nil, err
		}
		if m.file.loaded != nil {
			entries = append(entries, mappingEntry{m.start, m.end, m.file.bias(m.record) + m.file.table.Base, m.file.index.first, m.file.rows})
		}
	}
	return entries, nil
}

// mappingEntry is struct unwind_mapping of bpf/unwind.h.
type mappingEntry struct {
	Start, End, Bias uint64
	Table, Rows      uint32
}

// processEntry is struct unwind_process.
type processEntry struct{ First, Count uint32 }

// place puts the mappings of a process into another part of the map than it had, so that no program reads half of them. One that is left to its
// frame pointers has none.
func (t *Tables) place(pid int32, p *process, entries []mappingEntry) error {
	p.run = run{}
	if !p.wanted || len(p.mappings) == 0 {
		return t.forget(pid, p)
	}
	if !p.inMap && t.stats.Processes >= int(t.limits.Processes) {
		t.leaveOut(&t.stats.ProcessesLeftOut, fmt.Errorf("there are more than %d processes", t.limits.Processes))
		return nil
	}
	if len(entries) > 0 {
		place, err := t.takeMappings(uint32(len(entries)))
		if err != nil {
			return err
		}
		if place.count == 0 {
			t.leaveOut(&t.stats.ProcessesLeftOut, fmt.Errorf("processes have more than %d parts of files mapped", t.limits.Mappings))
			entries = nil
		}
		p.run = place
	}
	if len(entries) > 0 {
		keys := make([]uint32, len(entries))
		for i := range keys {
			keys[i] = p.run.first + uint32(i)
		}
		if _, err := t.mappingsMap.BatchUpdate(keys, entries, nil); err != nil {
			return fmt.Errorf("write the mappings of process %d to a BPF map: %w", pid, err)
		}
	}
	if err := t.processesMap.Put(uint32(pid), processEntry{p.run.first, p.run.count}); err != nil {
		return fmt.Errorf("write process %d to a BPF map: %w", pid, err)
	}
	if !p.inMap {
		t.stats.Processes++
	}
	p.inMap = true
	return nil
}

func (t *Tables) takeMappings(count uint32) (run, error) {
	place, ok := t.mappings.take(count)
	if ok || len(t.retired) == 0 {
		return place, nil
	}
	if err := kernel.WaitForBPF(); err != nil {
		return run{}, err
	}
	for _, r := range t.retired {
		t.mappings.give(r)
	}
	t.retired = t.retired[:0]
	place, _ = t.mappings.take(count)
	return place, nil
}

// forget takes a process out of the map.
func (t *Tables) forget(pid int32, p *process) error {
	if !p.inMap {
		return nil
	}
	if err := t.processesMap.Delete(uint32(pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take process %d out of a BPF map: %w", pid, err)
	}
	p.inMap = false
	t.stats.Processes--
	return nil
}

func (t *Tables) leaveOut(count *int, err error) {
	*count++
	if t.stats.First == nil {
		t.stats.First = err
	}
}

// Stats tells what is in the maps.
func (t *Tables) Stats() Stats {
	s := t.stats
	s.Rules, s.Rows = len(t.rules.numbers), t.rows
	for _, p := range t.processes {
		s.Mappings += int(p.run.count)
	}
	for _, f := range t.files {
		if f.loaded != nil {
			s.Tables++
		}
	}
	return s
}

// Close frees the tables. Programs must not run any more.
func (t *Tables) Close() error {
	var errs []error
	for _, f := range t.files {
		if f.loaded != nil {
			errs = append(errs, f.loaded.Close())
		}
	}
	return errors.Join(errs...)
}
