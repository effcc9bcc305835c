package object

import (
	"errors"
	"fmt"
	"os"

	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// Fetch opens the file of a build that is not on this machine: debuginfod's executable or, if no server has it, its file of debugging
// information, which has no code. path is where the file was. Fetch fails without Debuginfod.
func (s Search) Fetch(path, buildID string) (*File, error) {
	if s.Debuginfod == nil {
		return nil, errors.New("fetch from debuginfod: $DEBUGINFOD_URLS is not set")
	}
	f, err := s.fetched(s.Debuginfod.Executable, buildID, path)
	if err != nil {
		var noDebug error
		if f, noDebug = s.fetchDebug(buildID, path); noDebug != nil {
			return nil, err
		}
	}
	f.path = path
	s.addDebug(f)
	return f, nil
}

// FetchDebug gives f, which was opened without Debuginfod, the debugging information that Open would have found with it. It is called before
// the first lookup.
func (s Search) FetchDebug(f *File) { s.addDebug(f) }

// fetchDebug opens the debugging information of a build, from debuginfod. path is that of the file it belongs to.
func (s Search) fetchDebug(buildID, path string) (*File, error) {
	return s.fetched(s.Debuginfod.Debuginfo, buildID, path)
}

// fetched opens what a method of debuginfod's client gets.
func (s Search) fetched(get func(buildID, name string, check func(*os.File) error) (debuginfod.Cached, error), buildID, path string) (*File, error) {
	got, err := get(buildID, path, func(f *os.File) error { return isBuild(f, buildID) })
	if err != nil {
		return nil, err
	}
	return candidate{root: got.Dir, path: got.Path, copied: true}.open(s.Allowance, buildID)
}

// isBuild returns an error if a file is no ELF file of the build.
func isBuild(f *os.File, buildID string) error {
	id, err := readBuildID(f)
	if errors.Is(err, errUnusual) {
		c, err := readContents(f)
		if err != nil {
			return err
		}
		file, err := newFile("the answer", c)
		if err != nil {
			return err
		}
		return errors.Join(file.mustBe("the answer", buildID), file.Close())
	}
	if err == nil && fmt.Sprintf("%x", id) != buildID {
		err = fmt.Errorf("the answer is of another build: its build ID is %x, not %s", id, buildID)
	}
	return err
}

// wantsMore reports whether f lacks what debugging information would add. A function table of Go has it all.
func (s Search) wantsMore(f *File) bool {
	if !s.Lines && (f.image.section(".symtab") != nil || f.image.section(".gnu_debugdata") != nil) {
		return false
	}
	return f.goTable() == nil
}

// fetchSource reads a source file of debuginfod's.
func (s Search) fetchSource(of *File, path string) ([]byte, error) {
	if s.Debuginfod == nil {
		return nil, errors.New("fetch from debuginfod: $DEBUGINFOD_URLS is not set")
	}
	got, err := s.Debuginfod.Source(of.BuildID(), path, maxSource)
	if err != nil {
		return nil, err
	}
	return Search{Root: got.Dir, Allowance: s.Allowance}.ReadFile(got.Path, maxSource)
}
