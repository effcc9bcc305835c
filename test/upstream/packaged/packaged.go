// Package packaged fetches the perf of a Debian suite, for tests that compare bperf with it. It does not depend on the perf that this
// machine has installed.
package packaged

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

// The suites whose perf tests compare with.
const (
	Oldest = "bookworm" // Linux 6.1
	Newest = "testing"  // the newest kernel in Debian testing
)

// GaveUp reports whether perf 7.2 or 6.1, by its messages on standard error, stopped at a BPF program's record that is too long. The kernel
// writes such a record if another process loads a program while perf records (docs/kernel-notes.md). Then perf report prints nothing, with
// exit status 0; perf script ends at the record.
func GaveUp(stderr string) bool {
	return strings.Contains(stderr, "processing failed for event of type: KSYMBOL") || strings.Contains(stderr, "failed to process type: 17 [Bad address]")
}

// Path returns the path in the cache of a suite's perf for an architecture, by its name in Go. The file may not exist.
func Path(suite, arch string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bperf", "upstream", suite+"-"+arch, "perf"), nil
}

// Get returns the path of a suite's perf for an architecture, and fetches perf if it is not in the cache. The path is a script that starts
// perf with the libraries of that suite, which are beside it. Get installs nothing. To get a newer perf, remove its directory from the
// cache.
func Get(suite, arch string) (string, error) {
	script, err := Path(suite, arch)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	if err := fetch(suite, arch, filepath.Dir(script)); err != nil {
		return "", fmt.Errorf("get the perf of Debian %s: %w", suite, err)
	}
	return script, nil
}

// notNeeded matches packages that perf needs only for scripts in Python or Perl, and packages that are no libraries.
var notNeeded = regexp.MustCompile(`-(perl|stdlib|minimal|common|data|bin|extra)$`)

func fetch(suite, arch, dir string) error {
	if err := apt.Need(map[string]string{"dpkg-deb": "dpkg"}); err != nil {
		return err
	}
	return whole.Make(dir, func(tmp string) (string, error) { return unpack(suite, arch, tmp) })
}

// unpack puts perf and its libraries into dir.
func unpack(suite, arch, dir string) (string, error) {
	archive, err := apt.OpenArchive(suite, arch)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	packages, err := archive.Closure("linux-perf", func(name string) bool {
		return (strings.HasPrefix(name, "lib") || name == "zlib1g") && !notNeeded.MatchString(name)
	})
	if err != nil {
		return "", err
	}
	if err := archive.Unpack(dir, packages...); err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(dir, "usr", "share")); err != nil {
		return "", err
	}
	return dir, writeScript(dir)
}

// InGuest is the directory of the newest perf in a guest, with the files of Files.
const InGuest = "/opt/perf"

// Files returns the files that a perf of Get needs, with the libraries that it is linked to. The keys are their paths relative to its
// directory, and the values those on this machine.
func Files(script string) (map[string]string, error) {
	dir := filepath.Dir(script)
	const program = "usr/bin/perf"
	files := map[string]string{"perf": script, program: filepath.Join(dir, program)}
	for reading := []string{files[program]}; len(reading) > 0; reading = reading[1:] {
		needed, err := imports(reading[0])
		if err != nil {
			return nil, err
		}
		for _, library := range needed {
			found, err := filepath.Glob(filepath.Join(dir, "usr/lib/*", library))
			if err != nil {
				return nil, err
			}
			if len(found) != 1 {
				return nil, fmt.Errorf("%s needs %s, and there are %d of it in %s", reading[0], library, len(found), dir)
			}
			name := strings.TrimPrefix(found[0], dir+"/")
			if files[name] == "" {
				files[name] = found[0]
				reading = append(reading, found[0])
			}
		}
	}
	return files, nil
}

// imports returns the names of the libraries that a program or library is linked to.
func imports(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ImportedLibraries()
}

// writeScript writes the script that starts perf. Older suites also have libraries below /lib.
func writeScript(dir string) error {
	const name = "lib/*/ld-linux-*.so.*"
	loaders, _ := filepath.Glob(filepath.Join(dir, name))
	below, _ := filepath.Glob(filepath.Join(dir, "usr", name))
	if loaders = append(loaders, below...); len(loaders) != 1 {
		return fmt.Errorf("there are %d dynamic loaders in its packages, not one", len(loaders))
	}
	loader, err := filepath.Rel(dir, loaders[0])
	if err != nil {
		return err
	}
	triple := filepath.Base(filepath.Dir(loader))
	script := fmt.Sprintf(`#!/bin/sh
cd=$(dirname "$(readlink -f "$0")")
exec "$cd/%[1]s" --library-path "$cd/usr/lib/%[2]s:$cd/lib/%[2]s" --argv0 perf "$cd/usr/bin/perf" "$@"
`, loader, triple)
	return os.WriteFile(filepath.Join(dir, "perf"), []byte(script), 0o755)
}
