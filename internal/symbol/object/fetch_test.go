package object

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// debuginfodOf returns a client of a server that has the files, by their paths below /buildid/, and a function that returns the requests.
func debuginfodOf(t *testing.T, files map[string][]byte) (c *debuginfod.Client, requests func() []string) {
	t.Helper()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/buildid/")
		asked <- path
		if data, there := files[path]; there {
			_, _ = w.Write(data)
		} else {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	e := map[string]string{"DEBUGINFOD_URLS": server.URL, "DEBUGINFOD_CACHE_PATH": filepath.Join(t.TempDir(), "cache")}
	c = debuginfod.New(t.Context(), debuginfod.Options{Getenv: func(name string) string { return e[name] }, Notes: io.Discard})
	return c, func() (all []string) {
		for len(asked) > 0 {
			all = append(all, <-asked)
		}
		return all
	}
}

// TestDebuginfod has programs whose debugging information only a server has.
func TestDebuginfod(t *testing.T) {
	stripped, debug := split(t)
	withSymbols := filepath.Join(t.TempDir(), "symbols")
	run(t, "", "objcopy", "--strip-debug", build(t, "gcc", "-g"), withSymbols)
	contents, other := read(t, debug), read(t, build(t, "gcc", "-g", "-O1"))
	id := open(t, stripped).BuildID()
	root := t.TempDir()
	write(t, root+"/stripped", read(t, stripped))
	write(t, root+"/symbols", read(t, withSymbols))
	write(t, root+"/other", other)
	if open(t, withSymbols).BuildID() != id {
		t.Fatal("the fixtures have different build IDs")
	}
	for _, test := range []struct {
		name, path string
		search     Search
		files      map[string][]byte
		requests   []string
		lines      bool
	}{
		{name: "stripped", path: "/stripped", files: map[string][]byte{id + "/debuginfo": contents}, requests: []string{id + "/debuginfo"}, lines: true},
		{name: "with symbols", path: "/symbols", files: map[string][]byte{id + "/debuginfo": contents}},
		{name: "lines are wanted", path: "/symbols", search: Search{Lines: true}, files: map[string][]byte{id + "/debuginfo": contents},
			requests: []string{id + "/debuginfo"}, lines: true},
		{name: "not there", path: "/stripped", requests: []string{id + "/debuginfo"}},
		{name: "of another build", path: "/stripped", files: map[string][]byte{id + "/debuginfo": other}, requests: []string{id + "/debuginfo"}},
		{name: "no ELF file", path: "/stripped", files: map[string][]byte{id + "/debuginfo": []byte("hello")}, requests: []string{id + "/debuginfo"}},
		{name: "all is here", path: "/other", files: map[string][]byte{id + "/debuginfo": contents}, lines: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, requests := debuginfodOf(t, test.files)
			s := test.search
			s.Root, s.Debuginfod = root, client
			f := openWith(t, s, test.path, "")
			if hasLines(t, f) != test.lines {
				t.Errorf("there are lines: %v, want %v", !test.lines, test.lines)
			}
			if got := requests(); !slices.Equal(got, test.requests) {
				t.Errorf("the requests are %q, want %q", got, test.requests)
			}
			if owners := f.Owners(); f.debug != nil && !slices.Contains(owners, nobody) {
				t.Errorf("the fetched file belongs to %v", owners)
			}
		})
	}
}

// TestFetch has programs that are gone.
func TestFetch(t *testing.T) {
	stripped, debug := split(t)
	id := open(t, stripped).BuildID()
	for _, test := range []struct {
		name        string
		files       map[string][]byte
		lines, code bool
	}{
		{"both", map[string][]byte{id + "/executable": read(t, stripped), id + "/debuginfo": read(t, debug)}, true, true},
		{"debugging information", map[string][]byte{id + "/debuginfo": read(t, debug)}, true, false},
		{"program", map[string][]byte{id + "/executable": read(t, stripped)}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Search
			s.Debuginfod, _ = debuginfodOf(t, test.files)
			f, err := s.Fetch("/gone/program", id)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.BuildID() != id || f.Path() != "/gone/program" || hasLines(t, f) != test.lines {
				t.Errorf("fetched %s of build %s, lines %v", f.Path(), f.BuildID(), !test.lines)
			}
			start := f.image.elf.Entry
			if code, err := f.Code(start, start+1); (err == nil && len(code) == 1) != test.code {
				t.Errorf("the code is %v, %v", code, err)
			}
		})
	}
	var s Search
	s.Debuginfod, _ = debuginfodOf(t, nil)
	if _, err := s.Fetch("/gone/program", id); err == nil {
		t.Error("fetched what no server has")
	}
}

// TestFetchSources has source files here and on a server.
func TestFetchSources(t *testing.T) {
	f := open(t, build(t, "gcc", "-g"))
	dir := t.TempDir()
	write(t, dir+"/here.c", []byte("here\n"))
	gone, large := f.BuildID()+"/source/gone/b c.c", f.BuildID()+"/source/gone/large.c"
	client, requests := debuginfodOf(t, map[string][]byte{gone: []byte("one\ntwo\n"), large: make([]byte, maxSource+1)})
	s := Sources{Search: Search{Debuginfod: client}}
	s.Fetch(f, []string{dir + "/here.c", "/gone/b c.c", "/gone/b c.c", "", "/gone/no.c"})
	want := []string{gone, f.BuildID() + "/source/gone/no.c"}
	if got := slices.Sorted(slices.Values(requests())); !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	for path, want := range map[string]string{dir + "/here.c": "here", "/gone/b c.c": "one", "/gone/no.c": "", "/gone/large.c": "", "relative.c": ""} {
		if line, err := s.Line(f, path, 1); err != nil || line != want {
			t.Errorf("line 1 of %s is %q, %v, want %q", path, line, err, want)
		}
	}
	if got := requests(); !slices.Equal(got, []string{large}) {
		t.Errorf("the last requests are %q, want only %q", got, large)
	}
}
