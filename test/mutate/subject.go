package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/internal/userprog"
)

// Actions of the worker that are not commands of bperf. unwindTables does what `profile` does with the files of processes, but needs no
// process. readPrograms does what --prog does with objects before it loads them.
const (
	unwindTables = "unwind-tables" // FILE
	readPrograms = "read-programs" // FILE
)

// makeUnwindTables builds the unwind tables of a file like internal/userstack. It returns the exit status.
func makeUnwindTables(path string) int {
	f, err := object.Search{}.Open(path, "")
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	for _, arch := range []unwind.Arch{unwind.AMD64, unwind.ARM64} {
		s, err := f.Section(".eh_frame")
		if err != nil {
			return failed(err)
		}
		m, err := unwind.NewModule(arch, unwind.Section{Address: s.Addr, Data: s.Data}, unwind.Section{}, f.Code)
		if m == nil {
			return failed(err)
		}
		if _, err := m.Compile([]unwind.Range{{Start: 0, End: 1 << 62}}); err != nil {
			return failed(err)
		}
	}
	return 0
}

func readObjects(path string) int {
	if _, err := userprog.Read([]string{path}, nil, false); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "Error:", err)
	return 1
}

// subject is a sound ELF file, and the separate file with its debugging information.
type subject struct {
	b       []byte
	debug   []byte // nil if there is none
	program bool   // an object of BPF programs
}

// readSubjects returns the programs in the tree, and programs that it compiles.
func readSubjects(root, dir string) ([]subject, error) {
	var all []subject
	patterns := []string{"internal/userstack/testdata/deep-a*64", "test/split/testdata/split-a*64", "internal/symbol/unwind/testdata/signals-arm64"}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, subject{b: b})
		}
	}
	objects, err := filepath.Glob(filepath.Join(root, "test/onsample/*.o"))
	if err != nil {
		return nil, err
	}
	for _, file := range objects {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, subject{b: b, program: true})
	}
	source := filepath.Join(root, "internal/symbol/object/testdata/fixture.")
	for n, args := range [][]string{
		{"gcc", "-g", "-O2", source + "c"},
		{"g++", "-g", "-O2", "-Wl,--build-id", source + "cc"},
		{"gcc", "-g", "-gdwarf-4", "-O2", "-gz=zlib", source + "c"},
		{"gcc", "-gdwarf-2", "-gstrict-dwarf", "-O2", "-static", source + "c"},
		{"gcc", "-g", "-O2", "-fno-asynchronous-unwind-tables", source + "c"},
	} {
		file := filepath.Join(dir, fmt.Sprint("subject", n))
		if err := command(dir, args[0], append(args[1:], "-o", file)...); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, subject{b: b})
		if n > 1 {
			continue
		}
		// The same program with its debugging information in a separate file.
		s, debug := file+".stripped", filepath.Join(dir, "mutant.debug")
		for _, args := range [][]string{{"--only-keep-debug", file, debug}, {"--strip-all", "--add-gnu-debuglink=" + debug, file, s}} {
			if err := command(dir, "objcopy", args...); err != nil {
				return nil, err
			}
		}
		var split subject
		if split.b, err = os.ReadFile(s); err != nil {
			return nil, err
		}
		if split.debug, err = os.ReadFile(debug); err != nil {
			return nil, err
		}
		all = append(all, split)
	}
	hello := filepath.Join(dir, "hello.go")
	if err := os.WriteFile(hello, []byte("package main\n\nfunc main() { println(1) }\n"), 0o644); err != nil {
		return nil, err
	}
	if err := command(dir, "go", "build", "-ldflags=-s -w", "-o", "hello", hello); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "hello"))
	return append(all, subject{b: b}), err
}

func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// mutate writes a mutant, and a recording that maps the mutant. It returns the mutant's path and the commands that read both.
func (s subject) mutate(random *rand.Rand, dir string) (path string, commands [][]string, err error) {
	path = filepath.Join(dir, "mutant")
	if s.program {
		path += ".o"
		return path, [][]string{{readPrograms, path}}, os.WriteFile(path, mutateELF(random, s.b), 0o644)
	}
	b, debug := s.b, s.debug
	if debug != nil && random.IntN(2) == 0 {
		debug = mutateELF(random, debug)
	} else {
		b = mutateELF(random, b)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		return "", nil, err
	}
	if debug != nil {
		err = os.WriteFile(path+".debug", debug, 0o644)
	} else if err = os.Remove(path + ".debug"); os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return "", nil, err
	}
	sound, err := elf.NewFile(bytes.NewReader(s.b))
	if err != nil {
		return "", nil, err
	}
	w := written{path: path}
	for _, p := range sound.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			skip := p.Off & 4095
			w.code = append(w.code, code{p.Off - skip, p.Vaddr - skip, p.Filesz + skip})
		}
	}
	recording, err := w.recording()
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "elf.data")
	if err := os.WriteFile(data, recording, 0o644); err != nil {
		return "", nil, err
	}
	for _, args := range [][]string{
		{"report", "--sort", "dso,symbol,srcline,srcfile,symoff,symbol_size"}, {"report", "--format", "json"}, {"report", "--format", "csv"}, {"report", "--format", "folded"},
		{"report", "--format", "pprof"}, {"report", "--format", "flamegraph"}, {"report", "--format", "html"}, {"report", "--format", "speedscope"}, {"report", "--format", "firefox"},
		{"script", "-F", "+srcline,+symoff,+dsoff,+brstacksym,+insn,+flags"}, {"script", "--json"},
		{"annotate", "-l"}, {"annotate", "--format", "json"}, {"annotate", "--format", "html"},
	} {
		commands = append(commands, append(args, "-i", data, "--kallsyms", "/dev/null"))
	}
	return path, append(commands, []string{unwindTables, path}), nil
}

// mutateELF returns a copy of a file with one to four changes.
func mutateELF(random *rand.Rand, sound []byte) []byte {
	b := slices.Clone(sound)
	f, err := elf.NewFile(bytes.NewReader(sound))
	if err != nil {
		panic(err) // it is sound
	}
	order := binary.LittleEndian // all subjects are little-endian and 64-bit
	sections, segments := order.Uint64(b[40:]), order.Uint64(b[32:])
	for range 1 + random.IntN(4) {
		switch random.IntN(8) {
		case 0: // the header, after e_ident
			scribble(random, b[16:64], order)
		case 1: // a section's header
			at := sections + 64*uint64(random.IntN(len(f.Sections)))
			scribble(random, b[at:at+64], order)
		case 2: // a segment's header
			if len(f.Progs) > 0 {
				at := segments + 56*uint64(random.IntN(len(f.Progs)))
				scribble(random, b[at:at+56], order)
			}
		case 3: // a section gets the contents of another
			from, to := random.IntN(len(f.Sections)), random.IntN(len(f.Sections))
			const offset, size = 24, 16
			copy(b[sections+uint64(64*to)+offset:][:size], b[sections+uint64(64*from)+offset:][:size])
		case 4, 5: // the start of a section's contents, which describes the rest
			s := f.Sections[random.IntN(len(f.Sections))]
			scribbleSection(random, b, s, min(s.FileSize, 64), order)
		default:
			s := f.Sections[random.IntN(len(f.Sections))]
			for range 1 + random.IntN(8) {
				scribbleSection(random, b, s, s.FileSize, order)
			}
		}
	}
	if random.IntN(12) == 0 {
		b = b[:random.IntN(len(b))]
	}
	return b
}

func scribbleSection(random *rand.Rand, b []byte, s *elf.Section, size uint64, order byteOrder) {
	if s.Type != elf.SHT_NOBITS && s.Offset+size <= uint64(len(b)) {
		scribble(random, b[s.Offset:s.Offset+size], order)
	}
}
