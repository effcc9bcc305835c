// Package object reads ELF files for what a profile needs of them: the symbols, functions, source lines and code at
// addresses. Broken and hostile files give errors or less to find, and use memory in proportion to their size.
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
	"github.com/bperf/bperf/internal/symbol/dwarf"
	"github.com/bperf/bperf/internal/symbol/pclntab"
)

// File is an ELF file, and the file with its debugging information if that is another one. Goroutines may share it.
//
// Its addresses are virtual addresses as the file has them. Address makes them of the file offsets of mappings. In
// relocatable files, such as kernel modules, where sections have no addresses yet, they are the offsets in the file.
type File struct {
	path     string
	image    *image
	owner    int   // user ID
	debug    *File // what .gnu_debuglink or the build ID lead to, or nil
	sup      *File // what .gnu_debugaltlink leads to, or nil
	notFound error // why there is no separate debugging information, though the file names some

	symbolsOnce sync.Once
	symbols     *symbol.Table
	symbolsErr  error // why there are none, or not all

	goOnce sync.Once
	gotab  *pclntab.Table

	linesOnce sync.Once
	dwarf     *dwarf.Data // nil until it is needed

	allowance *allowance.Allowance
	taken     int64 // bytes of it

	mu        sync.Mutex
	names     map[string]string // demangled
	inflating []*inflating      // sections of DWARF
	lookups   int
}

// image is the contents of one file.
type image struct {
	elf    *elf.File
	data   []byte
	mapped []byte // the file; nil where it is not mapped
	copied bool   // mapped is memory, into which the file was read

	segments []*elf.Prog   // that are loaded
	code     []codeSection // of a relocatable file
}

// small is the size of files that may stay in memory: to have them mapped anew time and again takes longer than to find something in them.
const small = 16 << 20

// forget gives memory back that was read and is not soon read again. It is read from the file when it is.
func (i *image) forget() {
	if len(i.mapped) > small && !i.copied {
		_ = unix.Madvise(i.mapped, unix.MADV_DONTNEED) // advice
	}
}

// parse makes a File of the contents of one, for example those of the vDSO, which it keeps. The path is for messages and frames.
func parse(path string, data []byte) (*File, error) {
	i, err := newImage(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &File{path: path, image: i}, nil
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

// findSegments finds the segments that are loaded. They are searched for each address, so a hostile file may not have many.
func (i *image) findSegments() {
	for _, p := range i.elf.Progs {
		if p.Type == elf.PT_LOAD && len(i.segments) < maxSegments {
			i.segments = append(i.segments, p)
		}
	}
}

// layOut gives the sections of relocatable files addresses: those of their contents in the file.
func (i *image) layOut() {
	if i.elf.Type != elf.ET_REL {
		return
	}
	for _, s := range i.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			s.Addr = s.Offset
		}
	}
	i.code = i.moduleCode()
}

// guard runs what reads a file: a part that is cut off while it is mapped faults, and libraries may panic on contents
// that they do not expect.
func guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("broken contents: %v", cause)
		}
	}()
	return read()
}

// Close ends the use of the file. What Symbol and Frames returned stays valid.
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
	for _, z := range f.inflating {
		errs = append(errs, z.close())
	}
	f.inflating = nil
	if mapped := f.image.mapped; mapped != nil {
		f.image.mapped = nil
		errs = append(errs, unix.Munmap(mapped))
	}
	return errors.Join(errs...)
}

// Path is the path that the file was opened by.
func (f *File) Path() string {
	return f.path
}

// Machine is the architecture.
func (f *File) Machine() elf.Machine {
	return f.image.elf.Machine
}

// PointerSize is the size of an address in bytes.
func (f *File) PointerSize() int {
	if f.image.elf.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// buildID is the build ID in hexadecimal digits, or empty.
func (f *File) buildID() string {
	return hex.EncodeToString(f.image.buildID())
}

func (i *image) buildID() (id []byte) {
	_ = guard(func() error {
		id = i.findBuildID()
		return nil
	})
	return id
}

// maxNotes bounds the notes that are searched for the build ID, in bytes: files have a few hundred.
const maxNotes = 1 << 20

// findBuildID looks in the program headers first: what has been stripped of its sections has those.
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

// BuildIDNote returns the build ID among ELF notes (elf(5)), which have a name, a type and contents, each at a multiple of align; nil if there is none.
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

// slice returns a part of the file, or as much of it as there is.
func (i *image) slice(off, size uint64) []byte {
	if off >= uint64(len(i.data)) {
		return nil
	}
	rest := i.data[off:]
	return rest[:min(size, uint64(len(rest)))]
}
