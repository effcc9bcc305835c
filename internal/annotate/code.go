package annotate

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/dwarf"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// sources finds the code and the lines of functions.
type sources struct {
	options  *Options
	search   object.Search
	arch     string // in Go's names
	programs []*linear.Program
	kernel   *liveKernel // nil until it is needed
	files    map[string]file
	texts    object.Sources
}

// file is an ELF file, or the error of opening it.
type file struct {
	*object.File
	err error
}

// machines maps the machines of uname(2) to Go's names.
var machines = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// newSources returns the sources for a recording, or for what runs on this machine if reader is nil.
func newSources(reader *perfdata.Reader, programs []*linear.Program, o *Options) (*sources, error) {
	s := &sources{options: o, search: object.DefaultSearch(o.BuildIDs), arch: runtime.GOARCH, programs: programs, files: make(map[string]file)}
	s.search.Root, s.search.Allowance, s.search.Debuginfod, s.search.Lines = o.SymFS, o.Allowance, o.Debuginfod, !o.NoSource
	s.texts = object.Sources{Search: s.search, Moved: o.moved}
	if reader == nil {
		return s, nil
	}
	if machine := reader.Features().Text(perfdata.FeatureArch); machine != "" {
		if s.arch = machines[machine]; s.arch == "" {
			s.arch = machine
		}
	}
	if owner, known := reader.Owner(); known {
		s.texts.Owners = []int{int(owner)} // the recording names the ELF files
	}
	if _, err := disasm.InStyle(s.arch, o.Style); err != nil {
		return nil, fmt.Errorf("annotate a recording of %s: %w", s.arch, err)
	}
	return s, nil
}

func (s *sources) close() {
	for _, f := range s.files {
		if f.File != nil {
			f.Close()
		}
	}
	if s.kernel != nil && s.kernel.core != nil {
		s.kernel.core.Close()
	}
}

// programAt returns the BPF program and its function at an address. The ID distinguishes programs that were at the same address one after
// another; it is 0 if unknown.
func (s *sources) programAt(id uint32, tag string, start uint64) (*linear.Program, *linear.Function) {
	for _, p := range s.programs {
		if id != 0 && p.ID != id {
			continue
		}
		for i := range p.Functions {
			f := &p.Functions[i]
			if f.Address == start && (tag == "" || strings.HasPrefix(f.Symbol, "bpf_prog_"+tag)) {
				return p, f
			}
		}
	}
	return nil, nil
}

// isProgram reports whether a selection, which is an ID, a name or a tag, selects a program.
func isProgram(selection string, id uint32, p *linear.Program) bool {
	return selection == fmt.Sprint(id) || p != nil && (selection == p.Name || selection == p.Tag)
}

// wanted reports whether a function belongs to Options.Program. It is true for all functions if that is empty.
func (s *sources) wanted(h *hits) bool {
	if s.options.Program == "" {
		return true
	}
	if h.dso.Kind != profile.BPF {
		return false
	}
	p, _ := s.programAt(h.dso.Program, h.dso.Tag, h.symbol.Start)
	return isProgram(s.options.Program, h.dso.Program, p)
}

// listing finds the code of a function. Of h it needs neither samples nor values.
func (s *sources) listing(h *hits) *Listing {
	f := Function{Name: h.symbol.Name, Module: h.dso.Name, Start: bpfprog.Address(h.symbol.Start), Size: h.symbol.End - h.symbol.Start}
	c, move := &code{}, unmoved
	switch h.dso.Kind {
	case profile.BPF:
		c = s.bpf(h)
	case profile.Kernel:
		c, move = s.kernelCode(h)
	case profile.User:
		c, move = s.elf(h)
	default:
		c.missing = "what it is made of is not known here: it is the code of a guest or a hypervisor"
	}
	if c.disassemble == nil {
		c.disassemble, _ = disasm.InStyle(s.arch, s.options.Style)
	}
	f.Start = bpfprog.Address(move(h.symbol.Start))
	outside := c.target
	c.target = func(addr uint64) string {
		if addr >= uint64(f.Start) && addr-uint64(f.Start) < f.Size {
			return offset(f.Name, addr-uint64(f.Start))
		}
		if outside == nil {
			return ""
		}
		return outside(addr)
	}
	return newListing(f, c, move)
}

// unmoved is the move function for samples whose addresses are those of the code.
func unmoved(addr uint64) uint64 { return addr }

// offset returns the name of a location in a function.
func offset(name string, n uint64) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s+%#x", name, n)
}

// bpf finds the code of a BPF function in the recording. The code of trampolines and dispatchers is only in the kernel.
func (s *sources) bpf(h *hits) *code {
	p, f := s.programAt(h.dso.Program, h.dso.Tag, h.symbol.Start)
	if f == nil && h.dso.Tag == "" {
		return s.live(h, "the recording does not hold the code of trampolines and dispatchers, and ")
	}
	if f == nil {
		return s.live(h, "the recording does not hold this BPF program: it was gone before it could be read. Of this kernel, ")
	}
	c := &code{start: f.Address, bytes: f.Code, program: &Program{p.ID, p.Name, p.Tag}}
	if f.Code == nil {
		c.missing = "the recording does not hold its machine code: the kernel hid it (kernel.kptr_restrict, net.core.bpf_jit_harden)"
	}
	for _, l := range f.Lines {
		c.rows = append(c.rows, row{l.Address, Line{l.File, int(l.Number), strings.TrimSpace(l.Text)}})
	}
	if len(c.rows) == 0 {
		c.noSource = "the BPF program was loaded without lines (BTF)"
	}
	if s.options.NoSource {
		c.rows, c.noSource = nil, ""
	}
	c.target = func(addr uint64) string {
		for i := range p.Functions {
			if p.Functions[i].Address == addr {
				return p.Functions[i].Symbol
			}
		}
		if s.liveKernel().has(f.Symbol, f.Address) { // the kernel was not rebooted since
			return s.kernel.symbols[addr]
		}
		return ""
	}
	return c
}

// liveKernel returns the running kernel, which it opens on first use.
func (s *sources) liveKernel() *liveKernel {
	if s.kernel == nil {
		s.kernel = openKernel("/proc")
	}
	return s.kernel
}

// live finds code in the running kernel.
func (s *sources) live(h *hits, before string) *code {
	c := &code{start: h.symbol.Start}
	if s.arch != runtime.GOARCH {
		c.missing = before + "this machine is of another architecture than the recording's"
		return c
	}
	text, err := s.liveKernel().read(h.symbol.Linkage, h.symbol.Start, h.symbol.End)
	if err != nil {
		c.missing = before + "its code cannot be read from the kernel that runs: " + err.Error()
		return c
	}
	c.target = func(addr uint64) string { return s.kernel.symbols[addr] }
	c.bytes = bytes.TrimRight(text, "\x00\xcc") // x86 pads functions up to the next one
	if len(c.bytes) == 0 {
		c.bytes = text
	}
	if s.arch == "arm64" {
		c.bytes = text[:min(len(text), (len(c.bytes)+3)&^3)]
	}
	return c
}

// kernelCode finds code in the running kernel or, for a module that was unloaded, in the module's file.
func (s *sources) kernelCode(h *hits) (c *code, move func(uint64) uint64) {
	file, replaced := h.dso.HasFile(), h.dso.Replaced()
	if !file || !replaced {
		if c = s.live(h, ""); c.missing == "" || !file {
			return c, unmoved
		}
	}
	of, moveOf := s.elf(h)
	if of.missing != "" && !replaced {
		return c, unmoved
	}
	if of.missing == "" {
		of.note = "the module is not loaded: this is its file, in which the kernel has not filled in what is called and where data is"
		all := of.disassemble
		of.disassemble = func(code []byte, address uint64) []disasm.Instruction {
			instructions := all(code, address)
			for i := range instructions {
				if in := &instructions[i]; in.Target == in.Address || in.Target == in.Address+uint64(len(in.Code)) {
					in.Target = 0 // the kernel has not filled it in
				}
			}
			return instructions
		}
	}
	return of, moveOf
}

// elf finds code and lines in a file. move converts the addresses of samples to addresses of the file. They are offsets in the file or, for
// a module, addresses in memory.
func (s *sources) elf(h *hits) (c *code, move func(uint64) uint64) {
	move = unmoved
	f := s.open(h.dso.Path, hex.EncodeToString(h.dso.BuildID))
	if f.err != nil {
		return &code{missing: "its code cannot be read: " + f.err.Error()}, move
	}
	start, ok := f.Address(h.symbol.Start - h.dso.Base)
	if !ok {
		return &code{missing: fmt.Sprintf("%s has nothing at %#x", f.Path(), h.symbol.Start-h.dso.Base)}, move
	}
	move = func(addr uint64) uint64 { return addr - h.symbol.Start + start }
	c = &code{start: start}
	end := move(h.symbol.End)
	text, err := f.Code(start, end)
	if err != nil {
		c.missing = err.Error()
		return c, move
	}
	c.bytes = text
	c.target = func(addr uint64) string {
		called, ok := f.Symbol(addr)
		if !ok {
			return ""
		}
		name := called.Name
		if !s.options.Mangled {
			name = symbol.Demangle(name)
		}
		return offset(name, addr-called.Start)
	}
	switch f.Machine() {
	case elf.EM_X86_64:
		c.disassemble, _ = disasm.InStyle("amd64", s.options.Style)
	case elf.EM_AARCH64:
		c.disassemble, _ = disasm.InStyle("arm64", s.options.Style)
	default:
		c.bytes, c.missing = nil, fmt.Sprintf("there is no disassembler for %v", f.Machine())
		return c, move
	}
	if s.options.NoSource {
		return c, move
	}
	unread := make(map[string]bool)
	lines := f.Lines(start, end)
	s.texts.Fetch(f.File, pathsOf(lines))
	for _, l := range lines {
		line, err := s.texts.Line(f.File, l.File, l.Line)
		c.rows = append(c.rows, row{l.Addr, Line{l.File, l.Line, line}})
		if err == nil || unread[l.File] {
			continue
		}
		if unread[l.File] = true; len(unread) == 1 {
			c.noSource = "source is left out: " + err.Error()
		}
	}
	if n := len(unread); n > 1 {
		c.noSource += fmt.Sprintf(" (and %d more files)", n-1)
	}
	if len(c.rows) == 0 {
		c.noSource = "there are no lines of it: neither in " + f.Path() + " nor in a file of debugging information"
	}
	return c, move
}

// pathsOf returns the source file of each line.
func pathsOf(lines []dwarf.Line) []string {
	var paths []string
	for _, l := range lines {
		paths = append(paths, l.File)
	}
	return paths
}

func (s *sources) open(path, buildID string) file {
	k := path + "\x00" + buildID
	f, known := s.files[k]
	if !known {
		f.File, f.err = s.search.Open(path, buildID)
		if f.err != nil && s.search.Debuginfod != nil && buildID != "" {
			if fetched, err := s.search.Fetch(path, buildID); err == nil {
				f.File, f.err = fetched, nil
			}
		}
		s.files[k] = f
	}
	return f
}

// moved returns where the source file with this path is: below Prefix, without the first PrefixStrip parts.
func (o *Options) moved(path string) string {
	if o.Prefix == "" || !filepath.IsAbs(path) {
		return path
	}
	parts := strings.Split(filepath.Clean(path), "/")[1:]
	return filepath.Join(o.Prefix, filepath.Join(parts[min(o.PrefixStrip, len(parts)-1):]...))
}
