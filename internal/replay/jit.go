package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/symbol/jit"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// Maximum sizes of the files of JIT compilers, in bytes: the owner of a process decides on their content. Dumps contain the code, too.
const (
	maxPerfMap = 32 << 20
	maxJITDump = 256 << 20
)

// jitDSO returns the DSO of executable memory without a file. perf names it after the file in which the compiler may describe its code.
func (m *machine) jitDSO(v *perfdata.Mmap2, p *process) *DSO {
	return m.dso(dsoKey{pid: v.PID}, func(d *DSO) {
		d.Path, d.Kind, d.inMemory = perfMap(v.PID), profile.User, true
		d.Name, d.Short = d.Path, shortName(d.Path)
		d.names = &perfMapCode{symbols: m.symbols, name: d.Name, runtime: p.runtime, owner: owner{pid: v.PID, start: v.Start}}
	})
}

// perfMapCode names code by perf-PID.map, which it reads on first use.
type perfMapCode struct {
	*symbols
	name    string // of the DSO
	runtime *jitRuntime
	owner   owner

	once  sync.Once
	code  *jit.Map // nil without a map
	taken int64    // bytes taken from the allowance

	mu    sync.Mutex
	known map[uint64]*Symbol // by start
}

func (p *perfMapCode) locate(l *Location) {
	p.once.Do(p.read)
	if p.code == nil {
		return
	}
	f, ok := p.code.Find(l.Addr)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[f.Start]
	if known == nil {
		known = &Symbol{Name: f.Name, Linkage: f.Name, Start: f.Start, End: f.End}
		p.known[f.Start] = known
	}
	l.Symbol = known
}

// read reads the map in the process's own /tmp, under its ID in its own PID namespace. If there is none, it reads the map in this process's
// /tmp, under the ID in the recording, as perf does.
func (p *perfMapCode) read() {
	p.known = map[uint64]*Symbol{}
	code, err := allowance.Work(p.replay.options.Allowance, "read it", func() (*jit.Map, error) {
		text, err := p.readOf(p.owner, perfMap(p.owner.pid), maxPerfMap)
		if err != nil {
			return nil, err
		}
		return jit.ParseMap(text)
	}, nil)
	if code != nil { // a partly broken map yields both code and an error
		if full := p.replay.options.Allowance.Take(code.Size()); full != nil {
			err = full
		} else {
			p.code, p.taken = code, code.Size()
		}
	}
	if err != nil {
		p.problem("no symbols, or not all, of "+p.name, p.runtime.explain(err))
	}
}

// close releases the functions. No handler may be running.
func (p *perfMapCode) close() {
	p.once.Do(func() {})
	p.replay.options.Allowance.Give(p.taken)
	p.code, p.known, p.taken = nil, nil, 0
}

// readOf reads a file of a JIT compiler as the process sees it if the process lives, otherwise by its path. The file must belong to root or
// to the user of the process; if the process has ended, to root or to the user of this process. With --symfs the owner does not matter,
// because files of other machines have other owners.
func (s *symbols) readOf(o owner, path string, limit int64) ([]byte, error) {
	search := object.Search{Root: s.replay.options.SymFS, Allowance: s.replay.options.Allowance}
	if search.Root != "" {
		return search.ReadFile(path, limit)
	}
	at, lives := s.live.find(o)
	if !lives {
		return search.ReadFile(path, limit, 0, os.Geteuid())
	}
	search.Root = at.root
	status := o.status()
	if o.path == "" { // a perf map, whose name contains the ID of the process
		text, err := search.ReadFile(perfMap(status.innermostPID), limit, 0, status.user)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
		search.Root = ""
	}
	return search.ReadFile(path, limit, 0, status.user)
}

// timedMapping is a mapping that exists from a time on, in ns of the recording's clock.
type timedMapping struct {
	from uint64
	*mapping
}

// isJITDump reports whether a mapping is of a JIT compiler's dump. A compiler maps its dump so that recordings mention it:
// tools/perf/Documentation/jitdump-specification.txt.
func isJITDump(v *perfdata.Mmap2) bool {
	name := filepath.Base(v.Filename)
	return v.Protection&protExec != 0 && strings.HasPrefix(name, "jit-") && strings.HasSuffix(name, ".dump")
}

// isMonotonic reports whether a recording uses the clock of JIT dumps, CLOCK_MONOTONIC.
func isMonotonic(events []*perfdata.Event) bool {
	return !slices.ContainsFunc(events, func(e *perfdata.Event) bool {
		return e.Attr.Flags&perfdata.AttrUseClockID == 0 || e.Attr.ClockID != perfdata.ClockMonotonic
	})
}

// readJITDump reads the code of a dump. If the clock is the same, the process gets the code as time goes on, otherwise at once, in the same
// order.
func (m *machine) readJITDump(p *process, v *perfdata.Mmap2) {
	p.dump = v.Filename
	problem := func(err error) {
		if err != nil {
			m.symbols.problem("some or all code in "+v.Filename+" has no symbols", err)
		}
	}
	type sized struct {
		*jit.Dump
		size int64
	}
	dump, err := allowance.Work(m.symbols.replay.options.Allowance, "read it", func() (sized, error) {
		data, err := m.symbols.readOf(owner{v.PID, v.Start, v.Filename}, v.Filename, maxJITDump)
		if err != nil {
			return sized{}, err
		}
		dump, err := jit.ParseDump(data)
		return sized{dump, int64(len(data))}, err
	}, nil)
	problem(err)
	if dump.Dump == nil {
		return
	}
	if err := m.symbols.replay.options.Allowance.Take(dump.size); err != nil {
		problem(err)
		return
	}
	p.taken += dump.size
	comparable := m.monotonic && !dump.ArchTimestamps
	if !comparable {
		problem(errors.New("its times are not of the recording's clock, so that the last code at an address is taken: record with -k mono"))
	}
	for _, l := range dump.Loads {
		from := l.Time
		if !comparable {
			from = 0
		}
		p.jitted = append(p.jitted, timedMapping{from, &mapping{Start: l.Start, End: l.End, DSO: m.jittedDSO(filepath.Dir(v.Filename), &dump.Codes[l.Code], l)}})
	}
}

// jittedDSO returns the DSO of a function in a dump. It is named after the file that perf inject --jit writes for the function.
func (m *machine) jittedDSO(dir string, code *jit.Code, l jit.Load) *DSO {
	return m.addDSO(func(d *DSO) {
		d.Path = fmt.Sprintf("%s/jitted-%d-%d.so", dir, code.PID, code.Index)
		d.Name, d.Short, d.Kind, d.inMemory = d.Path, shortName(d.Path), profile.User, true
		d.names = &jittedCode{code, Symbol{Name: code.Name, Linkage: code.Name, Start: l.Start, End: l.End}}
	})
}

// load maps the code that a JIT compiler had generated by a time.
func (p *process) load(time uint64) {
	n := 0
	for ; n < len(p.jitted) && p.jitted[n].from <= time; n++ {
		p.maps = p.maps.insert(p.jitted[n].mapping)
	}
	p.jitted = p.jitted[n:]
}

// jittedCode names a function of a dump, with its lines.
type jittedCode struct {
	code   *jit.Code
	symbol Symbol
}

func (j *jittedCode) locate(l *Location) {
	l.Symbol = &j.symbol
	if line := j.code.Line(l.Addr - j.symbol.Start); line != nil {
		l.Source = &Source{File: line.File, Line: int(line.Number)}
	}
}
