package userstack

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// fileID identifies a file by device and inode, by build ID, or by name, depending on the record. A new file can get the inode of a deleted
// one; size and modification time distinguish the two.
type fileID struct {
	major, minor uint32
	inode        uint64
	buildID      string
	name         string // if the record has no inode
	size         int64
	modified     time.Time
}

// file is an ELF file that processes have mapped.
type file struct {
	id      fileID
	elf     *object.File  // closed, except for its headers; nil if it could not be read
	table   *unwind.Table // nil if the file has none or needs none; without rows once they are in the kernel
	rows    uint32
	needed  bool      // the code does not keep frame pointers
	users   int       // number of mappings
	loaded  *ebpf.Map // its rows in the kernel; nil if they are not there
	rules   []uint32  // the numbers of its rules, if loaded
	index   run       // its entry in unwind_tables
	leftOut bool      // there was no room for it
	idle    bool      // no process has mapped it since the last Forget
	frames  int       // bytes of call frame information that were read
}

// vdso is the name of the only memory without a file that can have a table.
const vdso = "[vdso]"

// isFile reports whether a record is of a file that can have a table.
func isFile(r *perfdata.Mmap2) bool {
	return strings.HasPrefix(r.Filename, "/") && !strings.HasPrefix(r.Filename, "//") || r.Filename == vdso
}

// open returns the file of a mapping, with one more user. If the file is new, open builds its table, unless too much was read for the
// process (Limits.Files).
func (t *Tables) open(p *process, r *perfdata.Mmap2) *file {
	at, id := t.identify(r)
	f, known := t.files[id]
	if !known {
		if p.read >= t.limits.Files {
			t.leaveOut(&t.stats.FilesUnread, fmt.Errorf("%s: for one process, here %d, at most %d MiB of call frame information are read, each file counting as 16 KiB more",
				r.Filename, r.PID, t.limits.Files>>20))
			return &file{users: 1} // not shared with other processes
		}
		read, err := allowance.Work(t.search.Allowance, r.Filename, func() (file, error) { return readFile(at, t.arch, r) }, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // ErrNotExist: the process has ended
			t.leaveOut(&t.stats.FilesUnread, err)
		}
		f = &read
		f.id = id
		t.files[id] = f
		const eachFile = 16 << 10
		p.read += eachFile + f.frames
	} else if f.users == 0 {
		t.unused = slices.DeleteFunc(t.unused, func(o *file) bool { return o == f })
	}
	f.use()
	return f
}

// rootedPath is a path and how to open it.
type rootedPath struct {
	object.Search
	path string
}

// identify returns a path to open a mapped file at, and the ID of the file. It prefers object.MappedFile, which leads to the file even if it
// was deleted.
func (t *Tables) identify(r *perfdata.Mmap2) (at rootedPath, id fileID) {
	id = fileID{major: r.Major, minor: r.Minor, inode: r.Inode, buildID: string(r.BuildID)}
	if r.Inode == 0 {
		id.name = r.Filename
	}
	if r.Filename == vdso {
		return rootedPath{t.search, vdso}, id
	}
	inProcess := t.search
	inProcess.Root = fmt.Sprintf("/proc/%d/root", r.PID)
	for _, p := range []rootedPath{{t.search, object.MappedFile(r.PID, r.Start, r.Start+r.Length)}, {inProcess, r.Filename}, {t.search, r.Filename}} {
		at = p
		if info, err := p.Stat(p.path); err == nil {
			id.size, id.modified = info.Size(), info.ModTime()
			break
		}
	}
	return at, id
}

// readFile reads a file and builds its table.
func readFile(at rootedPath, arch unwind.Arch, r *perfdata.Mmap2) (f file, err error) {
	o, err := at.Open(at.path, "")
	if err != nil {
		return file{}, err
	}
	defer func() { _ = o.Close() }() // it is only read
	machine := map[unwind.Arch]elf.Machine{unwind.AMD64: elf.EM_X86_64, unwind.ARM64: elf.EM_AARCH64}[arch]
	if o.Machine() != machine || o.PointerSize() != 8 {
		return file{}, nil
	}
	code, ok := o.Executable(r.Offset, r.Length)
	if !ok {
		return file{}, nil
	}
	f.elf = o
	frames, err := o.Section(".eh_frame")
	if err != nil && !errors.Is(err, object.ErrNoSection) {
		return f, err
	}
	f.frames = len(frames.Data)
	m, err := unwind.NewModule(arch, unwind.Section{Address: frames.Addr, Data: frames.Data}, unwind.Section{}, o.Code)
	if err != nil && m == nil {
		return f, fmt.Errorf("%s: %w", r.Filename, err)
	}
	table, err := m.Compile([]unwind.Range{{Start: code.Low, End: code.High}})
	if errors.Is(err, unwind.ErrNoTables) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("%s: %w", r.Filename, err)
	}
	f.table, f.rows = table, uint32(len(table.Rows))
	f.needed = arch == unwind.ARM64 && table.Code > 0 || table.FramePointers*10 < table.Frames*9
	if !f.needed {
		f.table = nil
	}
	return f, nil
}

// bias returns the difference between addresses in a mapping and addresses in the file.
func (f *file) bias(r *perfdata.Mmap2) uint64 {
	if f.elf == nil {
		return 0
	}
	at, _ := f.elf.Executable(r.Offset, r.Length)
	return r.Start - at.Start
}

// rowEntry is struct unwind_row of bpf/unwind.h, and ruleEntry struct unwind_rule.
type (
	rowEntry  struct{ Offset, Rule uint32 }
	ruleEntry struct {
		CFAOffset, RAOffset, FPOffset int32
		CFA, RA, FP, Signal           uint8
	}
)

// loadFile puts the table of a file into the kernel, if the file needs it and there is room. Programs find it after publish.
func (t *Tables) loadFile(f *file) error {
	if f.table == nil || f.loaded != nil || !f.needed || f.leftOut {
		return nil
	}
	reason := t.noRoom(f)
	for reason != nil && len(t.unused) > 0 {
		if err := t.dropUnused(1); err != nil {
			return err
		}
		reason = t.noRoom(f)
	}
	if reason != nil {
		f.leftOut = true
		t.leaveOut(&t.stats.FilesLeftOut, fmt.Errorf("%s: %w", f.elf.Path(), reason))
		return nil
	}
	rules, err := t.number(f.table.Rules)
	if err != nil {
		return err
	}
	if f.loaded, err = fill(f.table.Rows, rules); err != nil {
		return fmt.Errorf("make a BPF map for the unwind table of %s: %w", f.elf.Path(), err)
	}
	f.index, _ = t.indexes.take(1)
	f.rules = rules
	t.loaded = append(t.loaded, f)
	t.rows += int(f.rows)
	f.table.Rows, f.table.Rules = nil, nil
	return nil
}

// noRoom returns the reason why there is no room for the table of a file, or nil.
func (t *Tables) noRoom(f *file) error {
	switch {
	case len(t.indexes.free) == 0:
		return fmt.Errorf("there are more than %d tables", t.limits.Tables)
	case t.rows+int(f.rows) > t.limits.Rows:
		return fmt.Errorf("tables have more than %d rows", t.limits.Rows)
	case !t.rules.fit(f.table.Rules):
		return fmt.Errorf("tables have more than %d rules", t.limits.Rules)
	}
	return nil
}

// publish makes the loaded tables visible to programs.
func (t *Tables) publish() error {
	if err := inTurns(t.loaded, func(f *file) error { return t.maps.tables.Put(f.index.first, uint32(f.loaded.FD())) }); err != nil {
		return fmt.Errorf("put %d unwind tables into a BPF map: %w", len(t.loaded), err)
	}
	t.loaded = nil
	return nil
}

// inTurns changes the entries of files in the map of tables. The kernel waits for a grace period at each change, so 16 changes wait
// together.
func inTurns(files []*file, change func(*file) error) error {
	const together = 16
	for some := range slices.Chunk(files, together) {
		errs := make([]error, len(some))
		var all sync.WaitGroup
		for i, f := range some {
			all.Go(func() { errs[i] = change(f) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// number returns the numbers of the rules of a table, and writes new rules to the kernel. The rules must fit.
func (t *Tables) number(rules []unwind.Rule) ([]uint32, error) {
	numbers, changed := t.rules.take(rules)
	if len(changed) == 0 {
		return numbers, nil
	}
	values := make([]ruleEntry, len(changed))
	for i, number := range changed {
		values[i] = entryOf(t.rules.all[number])
	}
	if _, err := t.maps.rules.BatchUpdate(changed, values, nil); err != nil {
		return nil, fmt.Errorf("write the rules of unwind tables to a BPF map: %w", err)
	}
	return numbers, nil
}

func entryOf(r unwind.Rule) ruleEntry {
	e := ruleEntry{r.CFAOffset, r.RAOffset, r.FPOffset, uint8(r.CFA), uint8(r.RA), uint8(r.FP), 0}
	if r.Signal {
		e.Signal = 1
	}
	return e
}

// fill creates the map of a table.
func fill(rows []unwind.TableRow, rules []uint32) (*ebpf.Map, error) {
	const innerMap = 1 << 12 // BPF_F_INNER_MAP of include/uapi/linux/bpf.h (Linux 5.10): the map of tables accepts maps of different sizes
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "unwind_table", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: uint32(len(rows)), Flags: innerMap})
	if err != nil {
		return nil, err
	}
	const batch = 8192
	keys, values := make([]uint32, 0, batch), make([]rowEntry, 0, batch)
	for i, r := range rows {
		keys, values = append(keys, uint32(i)), append(values, rowEntry{r.Offset, rules[r.Rule]})
		if len(keys) < batch && i < len(rows)-1 {
			continue
		}
		if _, err := m.BatchUpdate(keys, values, nil); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		keys, values = keys[:0], values[:0]
	}
	return m, nil
}

// maxUnused is the number of files that are kept without mappings: programs are often started again.
const maxUnused = 128

// use adds a user of a file. f may be nil.
func (f *file) use() {
	if f != nil {
		f.users++
	}
}

// release removes a user of a file. f may be nil.
func (t *Tables) release(f *file) {
	if f == nil {
		return
	}
	f.users--
	if f.users == 0 {
		f.idle = false
		t.unused = append(t.unused, f)
	}
}

// Forget drops the files that no process has mapped since the previous call. It must follow an Update.
func (t *Tables) Forget() error {
	idle := 0
	for idle < len(t.unused) && t.unused[idle].idle {
		idle++
	}
	if err := t.dropUnused(idle); err != nil {
		return err
	}
	for _, f := range t.unused {
		f.idle = true
	}
	return nil
}

// unload drops unused files beyond maxUnused.
func (t *Tables) unload() error {
	return t.dropUnused(len(t.unused) - maxUnused)
}

// dropUnused drops the n files that have been unused for the longest time. It drops none if n is not positive. Deleting the entry of a
// table waits until no program uses the table, so the numbers of its rules can then be reused.
func (t *Tables) dropUnused(n int) error {
	if n <= 0 {
		return nil
	}
	dropped := t.unused[:n]
	t.unused = slices.Clone(t.unused[n:])
	var loaded, published []*file
	for _, f := range dropped {
		if t.files[f.id] == f {
			delete(t.files, f.id)
		}
		if f.loaded == nil {
			continue
		}
		loaded = append(loaded, f)
		if !slices.Contains(t.loaded, f) {
			published = append(published, f)
		}
	}
	t.loaded = slices.DeleteFunc(t.loaded, func(f *file) bool { return slices.Contains(loaded, f) })
	if err := inTurns(published, func(f *file) error { return t.maps.tables.Delete(f.index.first) }); err != nil {
		return fmt.Errorf("take %d unwind tables out of a BPF map: %w", len(published), err)
	}
	var errs []error
	for _, f := range loaded {
		t.indexes.give(f.index)
		t.rules.give(f.rules)
		t.rows -= int(f.rows)
		errs = append(errs, f.loaded.Close())
	}
	return errors.Join(errs...)
}
