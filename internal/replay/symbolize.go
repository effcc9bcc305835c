package replay

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
)

// symbols is the shared state of symbolization. Goroutines share it.
type symbols struct {
	replay *Replay

	kernelOnce sync.Once
	kernel     finder
	running    bool           // kernel is the running kernel in its present state
	storing    sync.WaitGroup // the symbols of the kernel are being stored

	mu       sync.Mutex
	problems map[string]bool
	others   int                // number of problems beyond maxProblems
	known    map[uint64]*Symbol // kernel symbols by Start

	live liveMaps
}

// search returns the paths where files are searched, without debuginfod.
func (r *Replay) search() object.Search {
	s := object.DefaultSearch(r.options.BuildIDs)
	s.Allowance = r.options.Allowance
	if r.options.SymFS != "" {
		s.Root = r.options.SymFS
		for i, dir := range s.Debug {
			s.Debug[i] = filepath.Join(s.Root, dir)
		}
	}
	return s
}

// problems returns what has no symbols, and why, in alphabetical order. Handlers may be running.
func (r *Replay) problems() []string {
	r.symbols.mu.Lock()
	defer r.symbols.mu.Unlock()
	var all []string
	for text := range r.symbols.problems {
		all = append(all, text)
	}
	slices.Sort(all)
	if n := r.symbols.others; n > 0 {
		all = append(all, fmt.Sprintf("%d more times there were no symbols of something", n))
	}
	return all
}

// maxProblems is the maximum number of problems that are kept: each process can have its own.
const maxProblems = 1000

func (s *symbols) problem(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%s: %v", what, err)
	if len(s.problems) == maxProblems && !s.problems[text] {
		s.others++
		return
	}
	s.problems[text] = true
}

// findKernel returns the symbol of the kernel or of a module at an address.
func (s *symbols) findKernel(addr uint64) (Symbol, bool) {
	s.kernelOnce.Do(func() {
		find, err := s.replay.kernelSymbols()
		if err != nil {
			s.problem("no symbols of the kernel", err)
			find = func(uint64) (Symbol, bool) { return Symbol{}, false }
		}
		s.kernel = find
	})
	return s.kernel(addr)
}

// shared returns the one copy of a kernel symbol, until a symbol of another module takes its address.
func (s *symbols) shared(found Symbol) *Symbol {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[found.Start]
	if known == nil || *known != found {
		known = &found
		s.known[found.Start] = known
	}
	return known
}

// KernelFunction returns the kernel function at an address, except those of BPF programs. Handlers may call it.
func (r *Replay) KernelFunction(addr uint64) (name string, offset uint64, ok bool) {
	s, ok := r.symbols.findKernel(addr)
	return s.Name, addr - s.Start, ok
}

// kernelCode names the kernel itself.
type kernelCode struct{ *symbols }

func (k kernelCode) locate(l *Location) {
	if s, ok := k.findKernel(l.Addr); ok {
		l.Symbol = k.shared(s)
	}
}

// moduleCode names a module by kallsyms, or else by its file. Another module, or another build of it, may be at its address by now.
type moduleCode struct {
	*symbols
	dso  *DSO
	name string    // without brackets
	file *userFile // nil if the recording lacks the file name or the build ID

	once sync.Once
	gone bool // kallsyms has another build of the module, or another address
}

func newModuleCode(s *symbols, d *DSO) *moduleCode {
	c := &moduleCode{symbols: s, dso: d, name: strings.Trim(d.Name, "[]")}
	if filepath.IsAbs(d.Path) && len(d.BuildID) > 0 {
		c.file = &userFile{symbols: s, dso: d, module: c.name}
	}
	return c
}

func (c *moduleCode) locate(l *Location) {
	s, ok := c.findKernel(l.Addr)
	switch {
	case ok && (s.Module == "" || s.Module == c.name) && !c.isGone():
		l.Symbol = c.shared(s)
	case c.file != nil:
		c.file.locate(l)
	}
}

// isGone reports whether the loaded module of the same name is another build, or at another address.
func (c *moduleCode) isGone() bool {
	c.once.Do(func() {
		if !c.running {
			return
		}
		var why error
		id, base := runningModuleBuildID(c.name), runningModuleBase(c.name)
		switch {
		case len(c.dso.BuildID) > 0 && id != nil && !bytes.Equal(id, c.dso.BuildID):
			why = errors.New("another build of the module is loaded now")
		case base != 0 && base != c.dso.Base:
			why = errors.New("the module was loaded again, at another address")
		}
		c.gone = why != nil
		if c.gone && c.file == nil {
			c.problem("no symbols of "+c.dso.Name, why)
		}
	})
	return c.gone
}

// HasFile reports whether a module's file name and build ID are known. The file itself may be gone or be another build.
func (d *DSO) HasFile() bool {
	m, is := d.names.(*moduleCode)
	return is && m.file != nil
}

// Replaced reports whether the kernel now has another build of a module, or has it at another address.
func (d *DSO) Replaced() bool {
	m, is := d.names.(*moduleCode)
	return is && m.isGone()
}

// userFile names the code of an ELF file, which it opens on first use.
type userFile struct {
	*symbols
	dso    *DSO
	module string // name of the kernel module, if the file is one
	once   sync.Once
	file   *object.File // nil if it cannot be opened

	mu     sync.Mutex
	build  string             // build ID of file, if a process that has it mapped led to it
	known  map[uint64]*Symbol // by Start
	frames []symbol.Frame     // buffer for the next call
	owners []owner            // last processes that had it mapped
	stuck  bool               // a call of file does not return

	tablesOnce sync.Once
	tables     *unwind.Module // nil without tables
}

func (u *userFile) open() *object.File {
	u.prepare()
	return u.file
}

// prepare opens the file, unless it was opened or closed before.
func (u *userFile) prepare() {
	u.once.Do(func() {
		var err error
		if u.dso.Name == "[vdso]" {
			u.file, err = u.replay.vdso()
		} else {
			u.file, err = u.read()
		}
		if err != nil {
			u.problem("no symbols of "+u.dso.Name, err)
			u.file = nil
		}
	})
}

// close closes the file. No handler may be running. From then on it has no symbols.
func (u *userFile) close() {
	u.once.Do(func() {})
	if u.file != nil && !u.stuck {
		_ = u.file.Close() // it was only read
	}
	u.file, u.known, u.tables = nil, nil, nil
}

// read opens the file and reads the needed parts. What it fetches does not count as work, which has little time after the end of a run.
func (u *userFile) read() (*object.File, error) {
	work := func(do func() (*object.File, error)) (*object.File, error) {
		return allowance.Work(u.replay.options.Allowance, "read it", do, func(f *object.File) { _ = f.Close() })
	}
	if u.replay.options.Debuginfod == nil {
		return work(func() (*object.File, error) { return u.load(u.find()) })
	}
	file, err := u.fetch(work(u.find))
	return work(func() (*object.File, error) { return u.load(file, err) })
}

// fetch adds what the file lacks from debuginfod, which has the file itself, too, if it cannot be opened here.
func (u *userFile) fetch(file *object.File, err error) (*object.File, error) {
	search := u.replay.search()
	search.Debuginfod, search.Lines = u.replay.options.Debuginfod, u.replay.options.Lines
	if err == nil {
		search.FetchDebug(file)
	} else if fetched, notFetched := search.Fetch(u.dso.Path, u.dso.HexBuildID()); notFetched == nil {
		return fetched, nil
	}
	return file, err
}

// load reads the needed parts of the file.
func (u *userFile) load(file *object.File, err error) (*object.File, error) {
	if err == nil {
		if u.replay.options.Mangled {
			file.KeepMangled()
		}
		file.Load(!u.replay.options.NoInline || u.replay.options.Lines)
		if u.replay.options.NoInline && !u.replay.options.Lines { // nothing else of it is needed
			file.Forget()
		}
	}
	return file, err
}

// find opens the file. Without a build ID, only a process that has it mapped leads to the right file: the path can lead to another one by
// now.
func (u *userFile) find() (*object.File, error) {
	id := u.dso.HexBuildID()
	if id == "" {
		if file := u.findMapped(id); file != nil {
			u.mu.Lock()
			u.build = file.BuildID()
			u.mu.Unlock()
			return file, nil
		}
	}
	file, err := u.replay.search().Open(u.dso.Path, id)
	if err == nil && id == "" {
		u.checkReplaced()
	}
	if err == nil || id == "" {
		return file, err
	}
	if file := u.findMapped(id); file != nil {
		return file, nil
	}
	return nil, err
}

// checkReplaced warns if the file at the path is not the recorded one: without a build ID, bperf shows its symbols and code nevertheless.
func (u *userFile) checkReplaced() {
	k := &u.dso.key
	if u.replay.options.SymFS == "" && u.replay.search().Replaced(k.path, k.major, k.minor, k.inode, k.generation) {
		u.problem(u.dso.Name+" may be another build", errors.New("the file was replaced since, and the recording has no build ID of it"))
	}
}

// findMapped opens the file through a process that has it mapped. It returns nil if no such process lives.
func (u *userFile) findMapped(id string) *object.File {
	if u.replay.options.SymFS != "" {
		return nil
	}
	for _, o := range u.users() {
		p, lives := u.live.find(o)
		if !lives {
			continue
		}
		search := u.replay.search()
		search.Root = p.root
		if file, err := search.OpenMapped(p.mapped, u.dso.Path, id); err == nil {
			return file
		}
		if id == "" && search.Replaced(u.dso.key.path, u.dso.key.major, u.dso.key.minor, u.dso.key.inode, u.dso.key.generation) {
			continue
		}
		if file, err := search.Open(u.dso.Path, id); err == nil { // works without the capability that OpenMapped needs
			return file
		}
	}
	return nil
}

// maxOwners is the maximum number of processes through which bperf tries to open a file.
const maxOwners = 16

// add records a process that maps the file. Several are kept, because the first one may be gone when the symbols are needed.
func (u *userFile) add(o owner) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.owners); n > 0 && u.owners[n-1].pid == o.pid {
		return
	}
	u.owners = append(u.owners, o)
	u.owners = u.owners[max(0, len(u.owners)-maxOwners):]
}

func (u *userFile) users() []owner {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.owners)
}

// vdso returns the vDSO of the running kernel, if that is the recorded one.
func (r *Replay) vdso() (*object.File, error) {
	if r.options.SymFS != "" || len(r.machine.image.buildID) > 0 && !bytes.Equal(r.machine.image.buildID, runningBuildID()) {
		return nil, errors.New("that of the recording is not kept")
	}
	return object.VDSO()
}

func (u *userFile) locate(l *Location) {
	file := u.open()
	if file == nil {
		return
	}
	addr, ok := file.Address(l.Addr - u.dso.Base)
	if !ok {
		return
	}
	s, ok := file.Symbol(addr)
	if !ok {
		if err := file.SymbolsError(); err != nil {
			u.problem("no symbols, or not all, of "+u.dso.Name, err)
		}
		return
	}
	l.Symbol = u.symbol(file, s, l.Addr-addr)
	if u.replay.options.NoInline && !u.replay.options.Lines {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	frames := u.findFrames(file, addr)
	if len(frames) == 0 {
		return
	}
	last := len(frames) - 1
	source := Source{}
	if u.replay.options.Lines {
		source = Source{File: frames[last].File, Line: frames[last].Line}
	}
	if !u.replay.options.NoInline && last > 0 {
		source.Inlined = make([]Inlined, last)
		for i, f := range frames[:last] {
			source.Inlined[i] = Inlined{f.Function, f.File, uint32(max(0, f.Line)), uint32(max(0, f.StartLine))}
		}
	}
	if source.Inlined != nil || source.File != "" {
		l.Source = &source
	}
}

// findFrames returns the functions at an address, valid until the next call. When the run is about to end, it gives up if finding them
// takes long.
func (u *userFile) findFrames(file *object.File, addr uint64) []symbol.Frame {
	find := file.Functions
	if u.replay.options.Lines {
		find = file.Frames
	}
	if !u.replay.options.Allowance.Ending() {
		u.frames = find(addr, u.frames[:0])
		return u.frames
	}
	if u.stuck {
		return nil
	}
	frames, err := allowance.Work(u.replay.options.Allowance, "not all inlined functions and lines are found",
		func() ([]symbol.Frame, error) { return find(addr, nil), nil }, nil)
	if err != nil {
		u.stuck = true
		u.problem(u.dso.Name, err)
	}
	return frames
}

// Code returns n bytes of the file from a location on. It returns nil if there are none, and for everything that is not in a file.
func (l *Location) Code(n uint64) []byte {
	file, addr := l.File()
	if file == nil {
		return nil
	}
	code, err := file.Code(addr, addr+n)
	if err != nil {
		return nil
	}
	return code
}

// File returns the ELF file of a location and its address there. The file is nil for everything that is not in a user's file, or if the file
// cannot be read. It is valid until Replay.Close.
func (l *Location) File() (file *object.File, addr uint64) {
	if l.DSO == nil {
		return nil, 0
	}
	u, is := l.DSO.names.(*userFile)
	if !is {
		return nil, 0
	}
	if file = u.open(); file == nil {
		return nil, 0
	}
	addr, ok := file.Address(l.Addr)
	if !ok {
		return nil, 0
	}
	return file, addr
}

// symbol converts a symbol of the file. shift moves its addresses to those of the DSO.
func (u *userFile) symbol(file *object.File, s symbol.Symbol, shift uint64) *Symbol {
	u.mu.Lock()
	defer u.mu.Unlock()
	start := s.Start + shift
	known := u.known[start]
	if known == nil {
		if u.known == nil {
			u.known = map[uint64]*Symbol{}
		}
		name := strings.Clone(s.Name) // profiles keep it, and the names of all symbols of the file must not stay with it
		known = &Symbol{Name: name, Linkage: name, Start: start, End: s.End + shift, Module: u.module}
		if !u.replay.options.Mangled {
			known.Name = symbol.Demangle(name)
		}
		if u.replay.options.Lines {
			known.StartLine = startLine(file, s)
		}
		u.known[start] = known
	}
	return known
}

// startLine returns the line where a symbol's function begins; 0 if unknown.
func startLine(file *object.File, s symbol.Symbol) int {
	frames := file.Frames(s.Start, nil)
	if len(frames) == 0 {
		return 0
	}
	return frames[len(frames)-1].StartLine
}
