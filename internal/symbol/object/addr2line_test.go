package object

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol"
)

// toolFrame is a frame as addr2line -fi prints it.
type toolFrame struct {
	function, file string
	line           int
}

// addr2line runs a tool of that name for the frames of addresses.
func addr2line(t testing.TB, tool, file string, addrs []uint64) [][]toolFrame {
	t.Helper()
	need(t, tool)
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	list := filepath.Join(t.TempDir(), "addresses")
	write(t, list, in.Bytes())
	out := run(t, "", tool, "-a", "-f", "-i", "-e", file, "@"+list)

	var all [][]toolFrame
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "0x") {
			all = append(all, nil)
			continue
		}
		function := symbol.Demangle(lines.Text())
		lines.Scan()
		where, _, _ := strings.Cut(lines.Text(), " (discriminator")
		colon := strings.LastIndexByte(where, ':')
		line, _ := strconv.Atoi(where[colon+1:])
		all[len(all)-1] = append(all[len(all)-1], toolFrame{function, where[:colon], line})
	}
	if len(all) != len(addrs) {
		t.Fatalf("%s answered for %d of %d addresses", tool, len(all), len(addrs))
	}
	return all
}

func (f toolFrame) String() string {
	file := path.Clean(f.file)
	if f.file == "" || f.file == "??" {
		file = "no file"
	}
	// Functions that the compiler derives from another have separate names in the symbol table, which DWARF lacks.
	function, _, _ := strings.Cut(f.function, ".")
	return fmt.Sprintf("%s at %s:%d", function, file, f.line)
}

func ours(frames []symbol.Frame) []toolFrame {
	var printed []toolFrame
	for _, f := range frames {
		printed = append(printed, toolFrame{f.Function, f.File, f.Line})
	}
	return printed
}

// agree compares our frames with a tool's. If a function has no linkage name, binutils prints the name of the symbol instead. So where a
// tool prints the symbol's name, ours may differ.
func agree(ours, theirs []toolFrame) bool {
	return slices.EqualFunc(ours, theirs, func(a, b toolFrame) bool {
		if b.function == theirs[len(theirs)-1].function {
			b.function = a.function
		}
		return a.String() == b.String()
	})
}

// knows reports whether a tool has source lines for an address. Without DWARF, binutils prints the file of the symbol table and line 0.
func knows(frames []toolFrame) bool {
	return len(frames) > 1 || frames[0].line > 0 || path.IsAbs(frames[0].file)
}

// code returns the addresses in the functions of a file.
func code(f *File, step uint64) []uint64 {
	var addrs []uint64
	for s := range f.Symbols().All() {
		lo, ok := f.image.offset(s.Start)
		text := f.image.section(".text")
		if !ok || lo < text.Offset || lo >= text.Offset+text.Size {
			continue
		}
		for a := s.Start; a < s.End; a += step {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// TestAddr2line compares functions, lines and inlined calls with those of addr2line. Both tools have bugs with DWARF 5: binutils 2.40, for
// example, finds no inlined calls in files from clang. So only one of the tools must agree.
func TestAddr2line(t *testing.T) {
	const binutils, llvm = "addr2line", "llvm-addr2line-14"
	for _, test := range []struct {
		compiler string
		flags    string
		tools    []string
	}{
		{"g++", "-g -gdwarf-2", []string{binutils}},
		{"g++", "-g -gdwarf-3", []string{binutils}},
		{"g++", "-g -gdwarf-4", []string{binutils}},
		{"g++", "-g -gdwarf-4 -fdebug-types-section", []string{binutils}},
		{"g++", "-g -gdwarf-5", []string{binutils, llvm}},
		{"g++", "-g -gz", []string{binutils, llvm}},
		{"g++", "-g -gz=zlib-gnu", []string{binutils, llvm}},
		{"g++", "-g -ffunction-sections", []string{binutils, llvm}},
		{"g++", "-g -flto", []string{binutils, llvm}},
		{"g++", "-g1", []string{binutils, llvm}},
		{"clang++-14", "-g -gdwarf-4", []string{binutils, llvm}},
		{"clang++-14", "-g -gdwarf-5", []string{llvm}},
		{"clang++-14", "-gline-tables-only", []string{llvm}},
	} {
		t.Run(test.compiler+" "+test.flags, func(t *testing.T) {
			t.Parallel()
			f := open(t, build(t, test.compiler, strings.Fields(test.flags)...))
			addrs := code(f, 3)
			answers := make([][][]toolFrame, len(test.tools))
			for i, tool := range test.tools {
				answers[i] = addr2line(t, tool, f.Path(), addrs)
			}
			compared, inlined, wrong := 0, 0, 0
			for i, addr := range addrs {
				got := ours(f.Frames(addr, nil))
				wantFunctions(t, f, addr)
				if !slices.ContainsFunc(answers, func(a [][]toolFrame) bool { return knows(a[i]) }) {
					if knows(got) {
						t.Errorf("%#x is %v, and nothing is known there", addr, got)
					}
					continue
				}
				compared++
				if len(got) > 1 {
					inlined++
				}
				if !slices.ContainsFunc(answers, func(a [][]toolFrame) bool { return agree(got, a[i]) }) {
					if wrong++; wrong <= 5 {
						t.Errorf("%#x is\n%v, want\n%v", addr, got, answers[0][i])
					}
				}
			}
			if wrong > 0 || compared < 1000 || inlined < 300 && test.flags != "-gline-tables-only" {
				t.Errorf("%d of %d addresses differ, %d are in inlined functions", wrong, compared, inlined)
			}
		})
	}
}
