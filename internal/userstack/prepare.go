package userstack

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/symbol/object"
)

// mostPrepared is for how many libraries of a command tables are made at once.
const mostPrepared = 64

// Prepare makes the tables that a command is likely to need, before it starts: those of its file, of the interpreter that the file names, and of the
// libraries that it needs and that are in the interpreter's directory. Those of other files are made when they are mapped.
func (t *Tables) Prepare(command string) error {
	path, err := exec.LookPath(command)
	if err != nil {
		return nil // whoever executes it says so
	}
	interpreter, libraries, err := t.prepareFile(path)
	if err != nil || interpreter == "" {
		return err
	}
	if interpreter, err = filepath.EvalSymlinks(interpreter); err != nil {
		return nil // the same
	}
	paths := []string{interpreter}
	for _, name := range libraries[:min(len(libraries), mostPrepared)] {
		paths = append(paths, filepath.Join(filepath.Dir(interpreter), filepath.Base(name)))
	}
	for _, path := range paths {
		if _, _, err := t.prepareFile(path); err != nil {
			return err
		}
	}
	return nil
}

// prepareFile makes the table of a file, and returns what the file needs.
func (t *Tables) prepareFile(path string) (interpreter string, libraries []string, err error) {
	o, err := t.search.Open(path, "")
	if err != nil {
		return "", nil, nil // it is a script, or is not there
	}
	interpreter, libraries = o.Needs()
	_ = o.Close() // it is only read
	major, minor, inode, size, err := object.Identity(path)
	if err != nil {
		return "", nil, nil
	}
	// The record that the kernel will write, but for the part that is mapped: there is one with code.
	f := t.open(&perfdata.Mmap2{PID: int32(os.Getpid()), Length: size, Major: major, Minor: minor, Inode: inode, Filename: path})
	defer t.release(f)
	return interpreter, libraries, t.loadFile(f)
}
