package object

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
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
		t = s.add(file, s.read(file))
	}
	if number > len(t.lines) {
		return "", t.err
	}
	return t.lines[number-1], nil
}

// Fetch makes the next calls of Line with these paths not wait for debuginfod one after the other.
func (s *Sources) Fetch(of *File, paths []string) {
	if s.Search.Debuginfod == nil {
		return
	}
	const atOnce = 8 // each is in memory
	paths = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(paths))), func(path string) bool {
		_, known := s.texts[sourceFile{of, path}]
		return known || path == ""
	})
	for some := range slices.Chunk(paths, atOnce) {
		texts := make([]sourceBytes, len(some))
		var reading sync.WaitGroup
		for i, path := range some {
			reading.Go(func() { texts[i] = s.read(sourceFile{of, path}) })
		}
		reading.Wait()
		for i, path := range some {
			s.add(sourceFile{of, path}, texts[i])
		}
	}
}

// sourceBytes is the contents of a source file, or the error of reading it.
type sourceBytes struct {
	data []byte
	err  error
}

// read reads a source file from this machine or, if that fails, from debuginfod. Goroutines may call it.
func (s *Sources) read(file sourceFile) sourceBytes {
	path := file.path
	if s.Moved != nil {
		path = s.Moved(path)
	}
	all, err := s.Search.ReadFileAs(append(file.of.Owners(), s.Owners...), path, maxSource)
	if err != nil {
		if fetched, notFetched := s.Search.fetchSource(file.of, file.path); notFetched == nil {
			return sourceBytes{data: fetched}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return sourceBytes{}
	}
	return sourceBytes{all, err}
}

// add keeps the lines of a source file, if there is room.
func (s *Sources) add(file sourceFile, text sourceBytes) sourceText {
	const header = 16 // of a string
	size := len(text.data) + header*(bytes.Count(text.data, []byte("\n"))+1)
	t := sourceText{err: text.err}
	switch {
	case text.data == nil:
	case s.size+size > maxSources:
		t.err = fmt.Errorf("read %s: the source files together take more than %d MiB", file.path, maxSources>>20)
	default:
		s.size += size
		t.lines = strings.Split(string(text.data), "\n")
	}
	if s.texts == nil {
		s.texts = make(map[sourceFile]sourceText)
	}
	s.texts[file] = t
	return t
}
