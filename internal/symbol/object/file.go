// Package object reads ELF files for profiles: the symbols, functions, source lines and code at addresses. Broken and hostile files cause
// errors or missing results, and reading them uses memory in proportion to their size.
package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// File is an ELF file, with its debugging information if that is in another file. It is safe for concurrent use.
//
// Its addresses are the virtual addresses of the file; Address converts the file offsets of mappings to them. In relocatable files, such as
// kernel modules, sections have no addresses yet, so addresses are offsets in the file.
type File struct {
	path  string
	image *image
	owner int   // user ID
	debug *File // found by .gnu_debuglink or by the build ID; may be nil
	sup   *File // found by .gnu_debugaltlink; may be nil

	symbolsOnce sync.Once
	symbols     *symbol.Table
	symbolsErr  error // why symbols are missing

	goTable func() *pclntab.Table // the function table of a Go program, or nil
	onlyGo  func() *pclntab.Table // the same, or nil if the file has other symbols

	allowance *allowance.Allowance
	taken     int64 // bytes of the allowance

	mu        sync.Mutex
	names     map[string]string // demangled
	debugInfo debugInfo
	pace      pace // of forgetting pages
}

// image is the contents of one file.
type image struct {
	elf    *elf.File
	data   []byte
	mapped []byte // the file; nil if it is not mapped
	copied bool   // mapped is memory that the file was copied to

	segments []*elf.Prog  // the loaded ones
	code     moduleLayout // of a relocatable file
}

// small is the largest size of files that may stay in memory: mapping their pages again and again would take longer than the lookups.
const small = 16 << 20

// forget releases the memory of a large file. The kernel reads the file again when it is needed.
func (i *image) forget() {
	if len(i.mapped) > small && !i.copied {
		_ = unix.Madvise(i.mapped, unix.MADV_DONTNEED) // advice
	}
}

// Forget releases the memory of the file's pages, even of a small file. The kernel reads them again when they are needed.
func (f *File) Forget() {
	for _, i := range f.images() {
		if i.mapped != nil && !i.copied {
			_ = unix.Madvise(i.mapped, unix.MADV_DONTNEED) // advice
		}
	}
}

// parse returns a File with the given contents, such as those of the vDSO. The File refers to data. path is for messages and frames.
func parse(path string, data []byte) (*File, error) {
	i, err := newImage(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return fileOf(path, i), nil
}

// fileOf returns the File of an image, without its debugging information.
func fileOf(path string, i *image) *File {
	f := &File{path: path, image: i, goTable: sync.OnceValue(func() (t *pclntab.Table) {
		_ = guard(func() error { t = i.readGoTable(); return nil })
		return t
	})}
	f.onlyGo = sync.OnceValue(f.findOnlyGo)
	return f
}

func newImage(data []byte) (i *image, err error) {
	err = guard(func() error {
		if err := checkSections(data); err != nil {
			return err
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return notELF(data, err)
		}
		i = &image{elf: f, data: data}
		i.findSegments()
		i.layOut()
		return nil
	})
	return i, err
}

func notELF(data []byte, err error) error {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return errors.New("it is no ELF file")
	}
	return fmt.Errorf("it is a broken ELF file: %w", err)
}

// findSegments finds the loaded segments. Each lookup of an address searches them, so it keeps at most maxSegments.
func (i *image) findSegments() {
	for _, p := range i.elf.Progs {
		if p.Type == elf.PT_LOAD && len(i.segments) < maxSegments {
			i.segments = append(i.segments, p)
		}
	}
}

// layOut sets the addresses of sections in relocatable files to the offsets of their contents.
func (i *image) layOut() {
	if i.elf.Type != elf.ET_REL {
		return
	}
	for _, s := range i.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			s.Addr = s.Offset
		}
	}
	i.code = i.moduleLayout()
}

// guard calls read and returns its panics and faults as errors. A mapped file that is truncated causes faults, and libraries may panic on
// contents that they do not expect.
func guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("broken contents: %v", cause)
		}
	}()
	return read()
}

// Close releases the file. Results of Symbol and Frames stay valid.
func (f *File) Close() error {
	var errs []error
	for _, part := range []*File{f.debug, f.sup} {
		if part != nil {
			errs = append(errs, part.Close())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowance.Give(f.taken)
	f.taken = 0
	for _, z := range f.debugInfo.inflating {
		errs = append(errs, z.close())
	}
	f.debugInfo.inflating = nil
	if mapped := f.image.mapped; mapped != nil {
		f.image.mapped = nil
		errs = append(errs, unix.Munmap(mapped))
	}
	return errors.Join(errs...)
}

// Path returns the path that the file was opened by.
func (f *File) Path() string {
	return f.path
}

// Machine returns the architecture.
func (f *File) Machine() elf.Machine {
	return f.image.elf.Machine
}

// PointerSize returns the size of an address in bytes.
func (f *File) PointerSize() int {
	if f.image.elf.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// BuildID returns the build ID in hexadecimal digits, or "".
func (f *File) BuildID() string {
	return hex.EncodeToString(f.image.buildID())
}

func (i *image) buildID() (id []byte) {
	_ = guard(func() error {
		id = i.findBuildID()
		return nil
	})
	return id
}

// maxNotes limits the notes that are searched for the build ID, in bytes. Files have a few hundred bytes.
const maxNotes = 1 << 20

// findBuildID returns the build ID, or nil. It searches the program headers first, which files without sections also have.
func (i *image) findBuildID() []byte {
	left := uint64(maxNotes)
	notes := func(off, size uint64) []byte {
		size = min(size, left)
		left -= size
		return i.slice(off, size)
	}
	for _, p := range i.elf.Progs {
		if p.Type == elf.PT_NOTE {
			if id := BuildIDNote(notes(p.Off, p.Filesz), i.elf.ByteOrder, p.Align); id != nil {
				return id
			}
		}
	}
	for _, s := range i.elf.Sections {
		if s.Type == elf.SHT_NOTE {
			if id := BuildIDNote(notes(s.Offset, s.FileSize), i.elf.ByteOrder, s.Addralign); id != nil {
				return id
			}
		}
	}
	return nil
}

// BuildIDNote returns the build ID in ELF notes (elf(5)), or nil if there is none. A note has a name, a type and contents, each aligned to
// align.
func BuildIDNote(notes []byte, order binary.ByteOrder, align uint64) []byte {
	const buildID = 3 // NT_GNU_BUILD_ID
	if align != 8 {
		align = 4
	}
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(notes) >= 12 {
		nameSize, size, kind := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:])), order.Uint32(notes[8:])
		contents := pad(12 + nameSize)
		if contents+size > uint64(len(notes)) {
			return nil
		}
		if kind == buildID && string(notes[12:12+nameSize]) == "GNU\x00" {
			return bytes.Clone(notes[contents : contents+size])
		}
		notes = notes[min(pad(contents+size), uint64(len(notes))):]
	}
	return nil
}

// slice returns a part of the file, or less if the file ends there.
func (i *image) slice(off, size uint64) []byte {
	if off >= uint64(len(i.data)) {
		return nil
	}
	rest := i.data[off:]
	return rest[:min(size, uint64(len(rest)))]
}
