package object

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	maxSource  = 16 << 20  // maximum size of a source file, in bytes
	maxSources = 256 << 20 // maximum memory of the lines of all source files, in bytes
)

// Sources reads lines of the source files that ELF files name. It is for one goroutine.
type Sources struct {
	Search Search
	Owners []int                    // users who must have the right to read a source file, besides the owners of the ELF file that names it
	Moved  func(path string) string // returns where a source file is; nil if each is where its ELF file says

	texts map[sourceFile]sourceText
	size  int // of texts, in bytes of memory
}

// sourceFile is a source file that an ELF file names.
type sourceFile struct {
	of   *File
	path string
}

// sourceText is the lines of a source file, or the error of reading it.
type sourceText struct {
	lines []string
	err   error
}

// Line returns a line of a source file that an ELF file names. If the source file does not exist, it returns an empty line without an
// error.
func (s *Sources) Line(of *File, path string, number int) (string, error) {
	if path == "" || number <= 0 {
		return "", nil
	}
	file := sourceFile{of, path}
	t, known := s.texts[file]
	if !known {
		if s.texts == nil {
			s.texts = make(map[sourceFile]sourceText)
		}
		t.lines, t.err = s.read(file)
		s.texts[file] = t
	}
	if number > len(t.lines) {
		return "", t.err
	}
	return t.lines[number-1], nil
}

func (s *Sources) read(file sourceFile) ([]string, error) {
	path := file.path
	if s.Moved != nil {
		path = s.Moved(path)
	}
	all, err := s.Search.ReadFileAs(append(file.of.Owners(), s.Owners...), path, maxSource)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const header = 16 // of a string
	size := len(all) + header*(bytes.Count(all, []byte("\n"))+1)
	if s.size+size > maxSources {
		return nil, fmt.Errorf("read %s: the source files together take more than %d MiB", path, maxSources>>20)
	}
	s.size += size
	return strings.Split(string(all), "\n"), nil
}
