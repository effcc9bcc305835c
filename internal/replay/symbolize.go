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

// symbols are what is known of names. Goroutines share it.
type symbols struct {
	replay *Replay

	kernelOnce sync.Once
	kernel     finder
	running    bool // kernel is of the kernel that runs here, as it is now

	mu       sync.Mutex
	problems map[string]bool
	others   int                // problems that there was no room for
	known    map[uint64]*Symbol // of the kernel, by Start

	live liveMaps
}

// search says where files are looked for.
func (r *Replay) search() object.Search {
	s := object.DefaultSearch()
	s.Allowance = r.options.Allowance
	if r.options.BuildIDs != "" {
		s.Cache = r.options.BuildIDs
	}
	if r.options.SymFS != "" {
		s.Root = r.options.SymFS
		for i, dir := range s.Debug {
			s.Debug[i] = filepath.Join(s.Root, dir)
		}
	}
	return s
}

// problems says of what there are no symbols, and why, in the order of the alphabet. Handlers may go on meanwhile.
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

// maxProblems is how many problems are kept: each process can have its own.
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

// findKernel finds a symbol of the kernel or of a module.
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

// shared is the one copy of a symbol of the kernel, as long as no other module takes its place.
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

// KernelFunction finds the function of the kernel at an address, without those of BPF programs. It is for handlers.
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

// moduleCode names a module: by kallsyms, or else by its file. Where it was, another module may be by now, or another build of it.
type moduleCode struct {
	*symbols
	dso  *DSO
	name string    // without brackets
	file *userFile // nil if the recording does not have the name of its file and its build ID

	once sync.Once
	gone bool // kallsyms has another build of the module, or has it elsewhere
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

// isGone compares the module with the one of its name that is loaded now.
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

// HasFile reports whether a module's file and build are known. The file may be gone, or be of another build by now.
func (d *DSO) HasFile() bool {
	m, is := d.names.(*moduleCode)
	return is && m.file != nil
}

// Replaced reports whether the kernel has another build of a module now, or has it at another address.
func (d *DSO) Replaced() bool {
	m, is := d.names.(*moduleCode)
	return is && m.isGone()
}

// userFile names what is in an ELF file, which is opened when it is needed.
type userFile struct {
	*symbols
	dso    *DSO
	module string // the name of a module of the kernel, of which it is the file
	once   sync.Once
	file   *object.File // nil if there is none

	mu     sync.Mutex
	known  map[uint64]*Symbol // by Start
	frames []symbol.Frame     // for the next time
	owners []owner            // the last processes that had it mapped
	stuck  bool               // a call of file does not return

	tablesOnce sync.Once
	tables     *unwind.Module // nil if there are none
}

func (u *userFile) open() *object.File {
	u.once.Do(func() {
		var err error
		if u.dso.Name == "[vdso]" {
			u.file, err = u.replay.vdso()
		} else {
			u.file, err = allowance.Work(u.replay.options.Allowance, "read it", u.load, func(f *object.File) { _ = f.Close() })
		}
		if err != nil {
			u.problem("no symbols of "+u.dso.Name, err)
			u.file = nil
		}
	})
	return u.file
}

// close lets go of the file, when no handler is at work. From then on it has no symbols.
func (u *userFile) close() {
	u.once.Do(func() {})
	if u.file != nil && !u.stuck {
		_ = u.file.Close() // it was only read
	}
	u.file, u.known, u.tables = nil, nil, nil
}

// load opens the file and reads what is needed of it.
func (u *userFile) load() (*object.File, error) {
	file, err := u.find()
	if err == nil {
		file.Load(!u.replay.options.NoInline || u.replay.options.Lines)
	}
	return file, err
}

// find opens the file. Without a build ID only a process that has it mapped knows which file that is: the path can lead to another one by now.
func (u *userFile) find() (*object.File, error) {
	id := u.dso.HexBuildID()
	if id == "" {
		if file := u.findMapped(id); file != nil {
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

// checkReplaced warns if the file at the path is not the one that was recorded: without a build ID its symbols and code are shown all the same.
func (u *userFile) checkReplaced() {
	k := &u.dso.key
	if u.replay.options.SymFS == "" && u.replay.search().Replaced(k.path, k.major, k.minor, k.inode, k.generation) {
		u.problem(u.dso.Name+" may be another build", errors.New("the file was replaced since, and the recording has no build ID of it"))
	}
}

// findMapped opens the file as the processes see it that have it mapped; nil if none of them lives.
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
		if file, err := search.Open(u.dso.Path, id); err == nil { // without the capability
			return file
		}
	}
	return nil
}

// maxOwners is how many processes are asked for a file.
const maxOwners = 16

// add notes a process that maps the file: the first one may be gone by the time that its symbols are needed.
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

// vdso is that of the kernel that runs, if it is the one that was recorded.
func (r *Replay) vdso() (*object.File, error) {
	if r.options.SymFS != "" || len(r.machine.kernelBuildID) > 0 && !bytes.Equal(r.machine.kernelBuildID, runningBuildID()) {
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

// findFrames finds the functions at an address, which are valid until the next call. When the run is to end, that is given up if it takes long.
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

// Code returns n bytes from a place in a file on, as the file has them; nil where there are none, and for all that is in no file.
func (l *Location) Code(n uint64) []byte {
	if l.DSO == nil {
		return nil
	}
	u, is := l.DSO.names.(*userFile)
	if !is {
		return nil
	}
	file := u.open()
	if file == nil {
		return nil
	}
	addr, ok := file.Address(l.Addr)
	if !ok {
		return nil
	}
	code, err := file.Code(addr, addr+n)
	if err != nil {
		return nil
	}
	return code
}

// symbol makes a symbol of one of the file, with its addresses shifted to those of the DSO.
func (u *userFile) symbol(file *object.File, s symbol.Symbol, shift uint64) *Symbol {
	u.mu.Lock()
	defer u.mu.Unlock()
	start := s.Start + shift
	known := u.known[start]
	if known == nil {
		if u.known == nil {
			u.known = map[uint64]*Symbol{}
		}
		known = &Symbol{Name: u.replay.demangle(s.Name), Linkage: s.Name, Start: start, End: s.End + shift, Module: u.module}
		if u.replay.options.Lines {
			known.StartLine = startLine(file, s)
		}
		u.known[start] = known
	}
	return known
}

// startLine is the line where the function begins that the symbol is of; 0 if it is not known.
func startLine(file *object.File, s symbol.Symbol) int {
	frames := file.Frames(s.Start, nil)
	if len(frames) == 0 {
		return 0
	}
	return frames[len(frames)-1].StartLine
}

func (r *Replay) demangle(name string) string {
	if r.options.NoDemangle {
		return name
	}
	return symbol.Demangle(name)
}
