// Package userstack lets BPF programs unwind user stacks of programs without frame pointers (bpf/unwind.h). It builds unwind tables from
// the call frame information of the files that processes have mapped, and keeps them in BPF maps while they are used. A table consists of
// rows, sorted by offset in the code; each row refers to a rule, which describes how to find the caller's frame.
//
// The files of a process decide whether the process needs tables. On x86-64 a file needs one if less than nine tenths of the code that moves
// the stack pointer keeps a frame pointer. On arm64 each file with call frame information needs one, because leaf functions leave the
// return address in a register. If no file of a process needs a table, programs use the frame pointers of that process; Go programs are an
// example. Files are read when the stack of a process that has mapped them is first walked.
//
// Package userstack needs Linux 5.17, and root or CAP_BPF, CAP_PERFMON, and for the files of other users CAP_SYS_PTRACE and CAP_SYS_ADMIN.
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
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// End is the reason why a stack ends: enum unwind_end of bpf/unwind.h. For all but Outermost, the stack is incomplete.
type End uint32

const (
	Outermost  End = iota // there are no more callers
	NoTable               // the code has neither a table nor frame pointers
	NoRule                // the table has no rule for the code, and there is no frame pointer
	Unreadable            // the stack is not in memory, or not where the table says
	Broken                // the frame of the caller is not further up the stack
	TooDeep               // the stack has more than 127 frames
	NoAddress             // a return address is not an address, as happens in code without frame pointers
	Ends                  // the number of reasons
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

// Wants is the name of the variable of bpf/unwind.h that counts the processes whose stacks programs have walked without tables.
const Wants = "unwind_wants"

// Limits are the sizes of the maps. All but the rows take memory from the start: 2.8 MB with DefaultLimits.
type Limits struct {
	Processes uint32
	Mappings  uint32 // of all processes: mapped parts of files with a table
	Tables    uint32
	Rules     uint32
	Rows      int // of all tables, 8 bytes each
	Files     int // bytes of call frame information, plus 16 KiB per file, that are read for one process
}

// DefaultLimits suffice for a few thousand processes. All programs and libraries of a Debian system with a desktop have ten million rows,
// and Chrome has 20 MB of call frame information.
var DefaultLimits = Limits{Processes: 8192, Mappings: 32768, Tables: 2048, Rules: 32768, Rows: 16 << 20, Files: 48 << 20}

// Stats counts what is in the maps and what did not fit.
type Stats struct {
	Processes, Mappings, Tables, Rules, Rows int

	ProcessesLeftOut int // how often there was no room for a process or its mappings
	FilesLeftOut     int // files for whose tables there was no room
	FilesUnread      int // files that could not be read
	First            error
}

// String describes what was left out. It is empty if nothing was.
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

// Tables manages the maps of a BPF program that includes bpf/unwind.h. It is not safe for concurrent use.
type Tables struct {
	maps  kernelMaps
	wants *ebpf.Variable // nil with All
	read  uint64         // its value when the map of wanted processes was last read

	arch      unwind.Arch
	search    object.Search
	limits    Limits
	need      Need
	processes map[int32]*process
	changed   map[int32]bool // PIDs
	files     map[fileID]*file
	loaded    []*file // not yet in the map of tables
	unused    []*file // without mappings, the oldest first
	rules     *rules
	mappings  mappingRuns
	indexes   *runs // in the map of tables
	rows      int
	stats     Stats
}

// kernelMaps are the maps of bpf/unwind.h.
type kernelMaps struct{ processes, wanted, mappings, tables, rules *ebpf.Map }

// process holds the mappings of a process.
type process struct {
	mappings []mapping // sorted
	sampled  bool      // a program has walked its stack
	wanted   bool      // it needs tables now, by Tables.need
	run      run       // of the map of mappings
	inMap    bool
	read     int // counts towards Limits.Files
}

// mapping is a range of memory that a file is mapped to, or a part that is left of it.
type mapping struct {
	start, end uint64
	record     *perfdata.Mmap2
	file       *file // nil until load opens it
}

// Resize sets the sizes of the maps of a collection that is not loaded yet.
func (l Limits) Resize(spec *ebpf.CollectionSpec) {
	spec.Maps[mapProcesses].MaxEntries = l.Processes
	spec.Maps[mapWanted].MaxEntries = l.Processes
	spec.Maps[mapMappings].MaxEntries = l.Mappings
	spec.Maps[mapTables].MaxEntries = l.Tables
	spec.Maps[mapRules].MaxEntries = l.Rules
}

// Need says which processes get tables.
type Need int

const (
	All          Need = iota // all processes in records
	Sampled                  // from the next Update on, those whose stacks a program has walked
	SampledTwice             // those whose stacks were walked before two calls of Update: many processes end before they use their tables
)

// New returns Tables for the maps of a loaded collection, which the caller still owns. wants is the collection's variable named Wants,
// which All does not need. The allowance limits the time to read files.
func New(maps map[string]*ebpf.Map, wants *ebpf.Variable, limits Limits, need Need, a *allowance.Allowance) (*Tables, error) {
	t := &Tables{
		wants: wants,
		maps: kernelMaps{
			processes: maps[mapProcesses], wanted: maps[mapWanted], mappings: maps[mapMappings], tables: maps[mapTables], rules: maps[mapRules],
		},
		search: object.Search{Allowance: a}, limits: limits, need: need,
		processes: make(map[int32]*process), changed: make(map[int32]bool), files: make(map[fileID]*file),
		rules: newRules(limits.Rules), mappings: mappingRuns{runs: newRuns(limits.Mappings)}, indexes: newRuns(limits.Tables),
	}
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

// Record applies a record to its process: MMAP2 of code, FORK, COMM for execve(2), and EXIT. Programs see the changes after Update.
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
		p = &process{wanted: t.need == All}
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
	copied := *r // readers reuse their records
	i := sort.Search(len(p.mappings), func(i int) bool { return p.mappings[i].start >= end })
	p.mappings = slices.Insert(p.mappings, i, mapping{start: r.Start, end: end, record: &copied})
}

// unmap removes the mappings in a range.
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
	if from == nil || t.processes[child] != nil { // records of different CPUs can be out of order
		return
	}
	t.processes[child] = &process{mappings: slices.Clone(from.mappings), sampled: from.sampled, wanted: from.wanted, read: from.read}
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
	p.mappings, p.sampled, p.wanted = nil, false, t.need == All
	t.changed[pid] = true
}

// Update writes the recorded changes to the maps. Unless all processes get tables, it first finds those whose stacks programs have walked.
// It stops building tables after the time longest and leaves the rest to the next call; with 0 it builds all of them, unless the run has
// been asked to end. An error comes from the kernel and is fatal. Stats reports what did not fit.
func (t *Tables) Update(longest time.Duration) error {
	if t.need != All {
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
		if err := t.writeMappings(pid, p, those); err != nil {
			return err
		}
		t.mappings.retire(old)
		if len(p.mappings) == 0 {
			delete(t.processes, pid)
		}
		delete(t.changed, pid)
	}
	return t.unload()
}

var errLate = errors.New("there is no time for more unwind tables")

// want marks the processes whose stacks programs have walked without tables.
func (t *Tables) want() error {
	var wants uint64
	if err := t.wants.Get(&wants); err != nil {
		return fmt.Errorf("read how many processes there are whose stacks are walked: %w", err)
	}
	if wants == t.read { // reading the map takes longer: the kernel walks all buckets
		return nil
	}
	t.read = wants
	const batch = 256
	var cursor ebpf.MapBatchCursor
	pids, values := make([]uint32, batch), make([]uint8, batch)
	for {
		n, end := t.maps.wanted.BatchLookupAndDelete(&cursor, pids, values, nil)
		if end != nil && !errors.Is(end, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the processes whose stacks are walked: %w", end)
		}
		for _, pid := range pids[:n] {
			p := t.processes[int32(pid)]
			if p == nil || p.wanted {
				continue
			}
			if t.need == Sampled || p.sampled {
				p.wanted, t.changed[int32(pid)] = true, true
			}
			p.sampled = true
		}
		if end != nil { // that was the last batch
			return nil
		}
	}
}

// load builds the tables of a process, if the process is wanted and needs any. It returns an entry for each mapping of a file with a table.
// If late returns true before the end, load returns errLate and can be called again.
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

// writeMappings writes the mappings of a process to a new part of the map, so that no program reads a half-written list. A process that
// uses frame pointers has no mappings there.
func (t *Tables) writeMappings(pid int32, p *process, entries []mappingEntry) error {
	p.run = run{}
	if !p.wanted || len(p.mappings) == 0 {
		return t.forget(pid, p)
	}
	if !p.inMap && t.stats.Processes >= int(t.limits.Processes) {
		t.leaveOut(&t.stats.ProcessesLeftOut, fmt.Errorf("there are more than %d processes", t.limits.Processes))
		return nil
	}
	if len(entries) > 0 {
		taken, err := t.mappings.take(uint32(len(entries)))
		if err != nil {
			return err
		}
		if taken.count == 0 {
			t.leaveOut(&t.stats.ProcessesLeftOut, fmt.Errorf("processes have more than %d parts of files mapped", t.limits.Mappings))
			entries = nil
		}
		p.run = taken
	}
	if len(entries) > 0 {
		keys := make([]uint32, len(entries))
		for i := range keys {
			keys[i] = p.run.first + uint32(i)
		}
		if _, err := t.maps.mappings.BatchUpdate(keys, entries, nil); err != nil {
			return fmt.Errorf("write the mappings of process %d to a BPF map: %w", pid, err)
		}
	}
	if err := t.maps.processes.Put(uint32(pid), processEntry{p.run.first, p.run.count}); err != nil {
		return fmt.Errorf("write process %d to a BPF map: %w", pid, err)
	}
	if !p.inMap {
		t.stats.Processes++
	}
	p.inMap = true
	return nil
}

// forget removes a process from the map.
func (t *Tables) forget(pid int32, p *process) error {
	if !p.inMap {
		return nil
	}
	if err := t.maps.processes.Delete(uint32(pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
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

// Stats returns what is in the maps, and what was left out since New.
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

// Close frees the tables. Programs must no longer run.
func (t *Tables) Close() error {
	var errs []error
	for _, f := range t.files {
		if f.loaded != nil {
			errs = append(errs, f.loaded.Close())
		}
	}
	return errors.Join(errs...)
}
