package event

import (
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// fake returns the machine of a file in testdata. Without tracing/ in the file, tracefs is not mounted: its root
// exists and is empty.
func fake(t testing.TB, name string) *Machine {
	t.Helper()
	devices, tracing := fakeFS(t, name)
	return NewMachine(devices, tracing)
}

func fakeFS(t testing.TB, name string) (devices, tracing fs.FS) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{"devices": {Mode: fs.ModeDir}, "tracing": {Mode: fs.ModeDir}}
	for _, f := range archive.Files {
		root[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return sub(t, root, "devices"), sub(t, root, "tracing")
}

func sub(t testing.TB, fsys fs.FS, dir string) fs.FS {
	t.Helper()
	s, err := fs.Sub(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// guarded is a tree that counts the files opened and fails for some names.
type guarded struct {
	fs.FS
	opened []string
	fail   map[string]error
}

func (g *guarded) Open(name string) (fs.File, error) {
	g.opened = append(g.opened, name)
	if err, ok := g.fail[name]; ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return g.FS.Open(name)
}
