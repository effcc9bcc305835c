// Package packaged gets the newest perf that Debian packages, for tests that compare with it beside the older one of the machine.
package packaged

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

// suite has the newest kernel that Debian has let in, and its perf.
const suite = "testing"

// Path is that of that perf for this machine, in the cache, whether it is there or not.
func Path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bperf", "upstream", suite+"-"+runtime.GOARCH, "perf"), nil
}

// Get returns the path of the perf of Debian testing, out of the cache if it is there. It is a script that starts it with the libraries of that
// suite, which stand beside it: nothing is installed. To get a newer one, remove its directory from the cache.
func Get() (string, error) {
	script, err := Path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	if err := fetch(filepath.Dir(script)); err != nil {
		return "", fmt.Errorf("get the perf of Debian %s: %w", suite, err)
	}
	return script, nil
}

// notNeeded are packages of what perf does only with scripts in Python, and of what is no library.
var notNeeded = regexp.MustCompile(`-(perl|stdlib|minimal|common|data|bin|extra)$|^libperl`)

func fetch(dir string) error {
	if err := apt.Need(map[string]string{"dpkg-deb": "dpkg"}); err != nil {
		return err
	}
	return whole.Make(dir, unpack)
}

// unpack fills a directory.
func unpack(dir string) (string, error) {
	archive, err := apt.OpenArchive(suite, runtime.GOARCH)
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
	loaders, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*", "ld-linux-*.so.*"))
	if err != nil || len(loaders) != 1 {
		return "", fmt.Errorf("there are %d dynamic loaders in its packages, not one", len(loaders))
	}
	libraries, err := filepath.Rel(dir, filepath.Dir(loaders[0]))
	if err != nil {
		return "", err
	}
	script := fmt.Sprintf(`#!/bin/sh
cd=$(dirname "$(readlink -f "$0")")
exec "$cd/%[1]s/%[2]s" --library-path "$cd/%[1]s" --argv0 perf "$cd/usr/bin/perf" "$@"
`, libraries, filepath.Base(loaders[0]))
	return dir, os.WriteFile(filepath.Join(dir, "perf"), []byte(script), 0o755)
}
