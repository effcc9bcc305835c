package apt

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/whole"
)

// Program is one of another suite of Debian, for this machine's architecture. It runs with the libraries of that suite: nothing is installed.
type Program struct {
	Name    string // below /usr/bin
	Suite   string
	Package string
	With    func(name string) bool // which packages it takes along, of those that it depends on
	Args    string                 // that it always gets: words of a shell, to which $cd is the directory of what was unpacked
}

// Get returns the path of a script in dir that starts the program. What is there already is taken; otherwise dir is made. To get a newer one, remove it.
func (p *Program) Get(dir string) (string, error) {
	script := filepath.Join(dir, p.Name)
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	err := Need(map[string]string{"dpkg-deb": "dpkg"})
	if err == nil {
		err = whole.Make(dir, p.unpack)
	}
	if err != nil {
		return "", fmt.Errorf("get %s of Debian %s: %w", p.Name, p.Suite, err)
	}
	return script, nil
}

// unpack fills a directory.
func (p *Program) unpack(dir string) (string, error) {
	archive, err := OpenArchive(p.Suite, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	packages, err := archive.Closure(p.Package, p.With)
	if err != nil {
		return "", err
	}
	if err := archive.Unpack(dir, packages...); err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(dir, "usr", "share", "doc")); err != nil {
		return "", err
	}
	text, err := p.script(dir)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, p.Name), []byte(text), 0o755)
}

// script starts the program by the dynamic loader of its suite, since the one whose path it contains is this machine's.
func (p *Program) script(dir string) (string, error) {
	loaders, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*", "ld-linux-*.so.*"))
	if err != nil || len(loaders) != 1 {
		return "", fmt.Errorf("there are %d dynamic loaders in its packages, not one", len(loaders))
	}
	libraries, err := filepath.Rel(dir, filepath.Dir(loaders[0]))
	if err != nil {
		return "", err
	}
	start := fmt.Sprintf(`exec "$cd/%[1]s/%[2]s" --library-path "$cd/%[1]s" --argv0 %[3]s "$cd/usr/bin/%[3]s"`,
		libraries, filepath.Base(loaders[0]), p.Name)
	words := []string{start}
	if p.Args != "" {
		words = append(words, p.Args)
	}
	words = append(words, `"$@"`)
	return "#!/bin/sh\ncd=$(dirname \"$(readlink -f \"$0\")\")\n" + strings.Join(words, " ") + "\n", nil
}
