package userstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// mostPrepared is the number of libraries of a command whose tables Prepare builds.
const mostPrepared = 64

// Prepare builds the tables that a command probably needs, before the command starts: those of its file, of the interpreter that the file
// names, and of the needed libraries in the interpreter's directory. For a script, it builds those of the program that runs the script.
// Other tables are built when their files are mapped.
func (t *Tables) Prepare(command string) error {
	path, err := t.program(command)
	if err != nil {
		return nil // executing the command reports this
	}
	interpreter, libraries, err := t.prepareFile(path)
	if err != nil || interpreter == "" {
		return err
	}
	if interpreter, err = filepath.EvalSymlinks(interpreter); err != nil {
		return nil // as above
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

// mostScripts is the number of scripts that the kernel follows to find a program (exec_binprm in fs/exec.c).
const mostScripts = 5

// program returns the file of a command. For a script, it returns the program that the first line names (execve(2)), or that env(1) starts
// from there.
func (t *Tables) program(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return "", err
	}
	for range mostScripts {
		words, err := t.search.Interpreter(path)
		if err != nil || len(words) == 0 {
			return path, err
		}
		path = words[0]
		if filepath.Base(path) == "env" {
			name := slices.IndexFunc(words[1:], func(word string) bool { return !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") })
			if name < 0 {
				return path, nil
			}
			if path, err = exec.LookPath(words[1+name]); err != nil {
				return "", err
			}
		}
	}
	return path, nil
}

// prepareFile builds the table of a file. It returns the interpreter and the libraries that the file needs.
func (t *Tables) prepareFile(path string) (interpreter string, libraries []string, err error) {
	o, err := t.search.Open(path, "")
	if err != nil {
		return "", nil, nil // missing, or not a program
	}
	interpreter, libraries = o.Needs()
	_ = o.Close() // it is only read
	major, minor, inode, size, err := object.Identity(path)
	if err != nil {
		return "", nil, nil
	}
	// The record resembles the one that the kernel will write, but covers the whole file: some part of it has code.
	f := t.open(&process{}, &perfdata.Mmap2{PID: int32(os.Getpid()), Length: size, Major: major, Minor: minor, Inode: inode, Filename: path})
	defer t.release(f)
	return interpreter, libraries, t.loadFile(f)
}
