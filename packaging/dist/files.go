package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// A file is in the tarball, in packages, or in both.
type file struct {
	tarball string // the path in the tarball; empty if it is not there
	path    string // the path after installation; empty if packages do not have it
	format  string // "deb" or "rpm" if only that has it
	data    []byte
	mode    fs.FileMode
	config  bool // an administrator may change it
	licence bool
}

// Where packages install files. `make install` has the same directories.
const (
	docDir  = "/usr/share/doc/bperf"
	manDir  = "/usr/share/man"
	unitDir = "/usr/lib/systemd/system"
)

// commonFiles returns the files that are equal for all architectures. bperf itself writes most of them.
func (r release) commonFiles(ctx context.Context, work string, binaries map[string]string) ([]file, error) {
	bperf, err := runnable(binaries)
	if err != nil {
		return nil, err
	}
	files, err := manPages(ctx, bperf, filepath.Join(work, "man"))
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		args []string
		file file
	}{
		{[]string{"completion", "bash"}, file{tarball: "completions/bperf.bash", path: "/usr/share/bash-completion/completions/bperf"}},
		{[]string{"completion", "fish"}, file{tarball: "completions/bperf.fish", path: "/usr/share/fish/vendor_completions.d/bperf.fish"}},
		{[]string{"completion", "zsh"}, file{tarball: "completions/_bperf", path: "/usr/share/zsh/vendor-completions/_bperf", format: "deb"}},
		{[]string{"completion", "zsh"}, file{path: "/usr/share/zsh/site-functions/_bperf", format: "rpm"}},
		{[]string{"serve", "--print-config"}, file{tarball: "bperf.yml", path: "/etc/bperf/bperf.yml", config: true}},
	} {
		c.file.mode = 0o644
		if c.file.data, err = output(exec.CommandContext(ctx, bperf, c.args...)); err != nil {
			return nil, err
		}
		files = append(files, c.file)
	}
	for _, c := range []struct {
		source string
		file   file
	}{
		{"packaging/bperf.service", file{tarball: "bperf.service", path: unitDir + "/bperf.service"}},
		{"CHANGELOG.md", file{tarball: "CHANGELOG.md", path: docDir + "/CHANGELOG.md"}},
		{"LICENSE", file{tarball: "LICENSE", path: docDir + "/LICENSE", format: "rpm", licence: true}}, // Debian has this text itself
		{"LICENSES/BSD-2-Clause.txt", file{tarball: "LICENSES/BSD-2-Clause.txt", path: docDir + "/BSD-2-Clause.txt", licence: true}},
		{"LICENSES/BSD-3-Clause-perfmon.txt", file{tarball: "LICENSES/BSD-3-Clause-perfmon.txt", path: docDir + "/BSD-3-Clause-perfmon.txt",
			licence: true}},
		{"LICENSES/GPL-2.0-only.txt", file{tarball: "LICENSES/GPL-2.0-only.txt", path: docDir + "/GPL-2.0-only.txt", format: "rpm",
			licence: true}},
	} {
		c.file.mode = 0o644
		if c.file.data, err = os.ReadFile(filepath.Join(r.root, c.source)); err != nil {
			return nil, err
		}
		files = append(files, c.file)
	}
	return files, nil
}

// manPages returns the man pages: plain in the tarball, compressed in packages.
func manPages(ctx context.Context, bperf, dir string) ([]file, error) {
	if _, err := output(exec.CommandContext(ctx, bperf, "man", dir)); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		return nil, err
	}
	var files []file
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		name := path.Join(filepath.Base(filepath.Dir(page)), filepath.Base(page))
		files = append(files, file{tarball: path.Join("man", name), data: data, mode: 0o644},
			file{path: path.Join(manDir, name+".gz"), data: compressed(data), mode: 0o644})
	}
	return files, nil
}

// filesOf returns all files of an architecture: its binary, the licences of its modules, and the common ones.
func (r release) filesOf(binary string, modules []module, common []file) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	texts := notices(modules)
	files := []file{
		{tarball: "bperf", path: "/usr/bin/bperf", data: program, mode: 0o755},
		{tarball: "THIRD-PARTY-NOTICES", data: texts, mode: 0o644},
		{path: docDir + "/THIRD-PARTY-NOTICES.gz", data: compressed(texts), mode: 0o644, licence: true},
	}
	return append(files, common...), nil
}

// compressed returns data as gzip -9n compresses it: without a name and a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	w.Write(data)                                         // a Buffer does not fail
	w.Close()
	return b.Bytes()
}

// parents returns the directories above a relative path, from the top down.
func parents(name string) []string {
	var dirs []string
	for i, c := range name {
		if c == '/' {
			dirs = append(dirs, name[:i])
		}
	}
	return dirs
}

// inTarball returns the files of the tarball, below a directory.
func inTarball(files []file, dir string) []file {
	var in []file
	for _, f := range files {
		if f.tarball != "" {
			f.path = path.Join(dir, f.tarball)
			in = append(in, f)
		}
	}
	return in
}

// relative returns a path of an installed file below the root.
func relative(path string) string { return strings.TrimPrefix(path, "/") }
