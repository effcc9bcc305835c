package object

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// split returns a stripped program and the file with its debugging information.
func split(t testing.TB, flags ...string) (stripped, debug string) {
	t.Helper()
	need(t, "objcopy", "strip")
	whole := build(t, "gcc", append([]string{"-g"}, flags...)...)
	dir := t.TempDir()
	stripped, debug = filepath.Join(dir, "program"), filepath.Join(dir, "program.debug")
	run(t, "", "objcopy", "--only-keep-debug", whole, debug)
	run(t, "", "strip", "-o", stripped, whole)
	run(t, dir, "objcopy", "--add-gnu-debuglink=program.debug", stripped)
	return stripped, debug
}

// hasLines reports whether functions, lines and inlined calls of the fixture are found.
func hasLines(t testing.TB, f *File) bool {
	t.Helper()
	s := named(f, "plain")
	if s == nil {
		return false
	}
	got := f.Frames(s.Start, nil)
	return len(got) > 1 && filepath.Base(got[0].File) == "fixture.c" && got[0].Line > 0 && got[0].Inlined
}

func TestDebugFiles(t *testing.T) {
	stripped, debug := split(t)
	contents, program := read(t, debug), read(t, stripped)
	id := open(t, stripped).BuildID()
	if len(id) != 40 {
		t.Fatalf("the build ID is %q", id)
	}
	withoutID, debugWithoutID := split(t, "-Wl,--build-id=none")

	for _, test := range []struct {
		name    string
		files   map[string][]byte // below the root
		search  Search            // its directories are also below the root
		buildID string
		want    string // empty if no file fits
	}{
		{name: "by build ID", search: Search{Debug: []string{"/debug"}}, want: "/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug",
			files: map[string][]byte{"/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug": contents, "/bin/program.debug": contents}},
		{name: "in perf's cache", search: Search{Cache: "/cache"}, want: "/cache/.build-id/" + id[:2] + "/" + id[2:] + "/debug",
			files: map[string][]byte{"/cache/.build-id/" + id[:2] + "/" + id[2:] + "/debug": contents}},
		{name: "beside the program", want: "/bin/program.debug", files: map[string][]byte{"/bin/program.debug": contents}},
		{name: "in .debug", want: "/bin/.debug/program.debug", files: map[string][]byte{"/bin/.debug/program.debug": contents}},
		{name: "in the debug tree", search: Search{Debug: []string{"/debug"}}, want: "/debug/bin/program.debug",
			files: map[string][]byte{"/debug/bin/program.debug": contents}},
		{name: "by its checksum", want: "/bin/program.debug",
			files: map[string][]byte{"/bin/program": read(t, withoutID), "/bin/program.debug": read(t, debugWithoutID)}},
		{name: "with another checksum",
			files: map[string][]byte{"/bin/program": read(t, withoutID), "/bin/program.debug": append(read(t, debugWithoutID), 0)}},
		{name: "not installed"},
		{name: "of another program", files: map[string][]byte{"/bin/program.debug": read(t, debugWithoutID)}},
		{name: "no ELF file", files: map[string][]byte{"/bin/program.debug": []byte("hello")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/bin/program", program)
			for path, data := range test.files {
				write(t, root+path, data)
			}
			s := Search{Root: root, Debug: test.search.Debug}
			if test.search.Cache != "" {
				s.Cache = root + test.search.Cache
			}
			f := openWith(t, s, "/bin/program", test.buildID)
			path := ""
			if f.debug != nil {
				path = f.debug.path
			}
			if want := filepath.Join(test.want); strings.TrimPrefix(path, root) != want {
				t.Errorf("found %q, want %s below %s", path, want, root)
			}
			if test.want != "" && !hasLines(t, f) {
				t.Error("there are no lines")
			}
		})
	}
}

// TestSupplement finds the file that .gnu_debugaltlink names, by its name and by its build ID.
func TestSupplement(t *testing.T) {
	need(t, "objcopy")
	program, supplement := build(t, "gcc", "-g"), build(t, "gcc", "-g", "-DOTHER", "-O1")
	id := open(t, supplement).BuildID()
	sum, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(program)
	write(t, dir+"/link", append([]byte("../common/two.debug\x00"), sum...))
	run(t, "", "objcopy", "--add-section=.gnu_debugaltlink="+dir+"/link", program)
	for _, test := range []struct {
		path string
		data []byte
		want bool
	}{
		{"/common/two.debug", read(t, supplement), true},
		{"/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug", read(t, supplement), true},
		{"/common/two.debug", read(t, program), false},
	} {
		root := t.TempDir()
		write(t, root+"/bin/program", read(t, program))
		write(t, root+test.path, test.data)
		f := openWith(t, Search{Root: root, Debug: []string{"/debug"}}, "/bin/program", "")
		if f.sup != nil != test.want {
			t.Errorf("%s: found %v, want %v", test.path, f.sup != nil, test.want)
		}
		if !hasLines(t, f) {
			t.Errorf("%s: there are no lines", test.path)
		}
	}
}

// TestOtherBuild has a program that was replaced after it was recorded.
func TestOtherBuild(t *testing.T) {
	old, replaced := build(t, "gcc", "-g"), build(t, "gcc", "-O1")
	id := open(t, old).BuildID()
	cache := t.TempDir()

	_, err := Search{Cache: cache}.Open(replaced, id)
	if err == nil || !strings.Contains(err.Error(), "another build") || !strings.Contains(err.Error(), id) {
		t.Errorf("the other build was opened: %v", err)
	}
	write(t, filepath.Join(cache, ".build-id", id[:2], id[2:], "elf"), read(t, old))
	f := openWith(t, Search{Cache: cache}, replaced, id)
	if f.BuildID() != id || !hasLines(t, f) || f.Path() != replaced {
		t.Errorf("opened %s of build %s", f.Path(), f.BuildID())
	}
	if owners := f.Owners(); !slices.Equal(owners, []int{nobody}) {
		t.Errorf("the copy belongs to %v", owners)
	}
	gone := openWith(t, Search{Cache: cache}, "/nonexistent/program", id)
	if gone.BuildID() != id {
		t.Errorf("a program that is gone was opened as build %s", gone.BuildID())
	}
}

// TestRoot has the file system of a container, whose links are relative to its root.
func TestRoot(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/usr/lib/program-1.0", read(t, build(t, "gcc", "-g")))
	write(t, filepath.Dir(root)+"/outside", []byte("this is no ELF file"))
	for link, to := range map[string]string{"/bin": "/usr/lib", "/usr/lib/program": "program-1.0", "/usr/lib/escape": "../../../outside"} {
		if err := os.Symlink(to, root+link); err != nil {
			t.Fatal(err)
		}
	}
	f := openWith(t, Search{Root: root}, "/bin/program", "")
	if !hasLines(t, f) {
		t.Error("there are no lines")
	}
	if _, err := (Search{Root: root}).Open("/bin/escape", ""); !os.IsNotExist(err) {
		t.Errorf("a link led out of the root: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/empty", nil)
	write(t, dir+"/text", []byte("#!/bin/sh\n"))
	write(t, dir+"/broken", []byte("\x7fELF\x02\x01\x01 and nothing else"))
	run(t, "", "mkfifo", dir+"/pipe")
	for path, want := range map[string]string{
		"/nonexistent": "no such file",
		"/empty":       "is empty",
		"/text":        "no ELF file",
		"/broken":      "broken ELF file",
		"/pipe":        "no regular file",
		"":             "no regular file",
	} {
		if _, err := (Search{}).Open(dir+path, ""); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}
