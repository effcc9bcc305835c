// Package packaged gets the newest perf that Debian packages, for tests that compare with it beside the older one of the machine.
package packaged

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/apt"
)

// suite has the newest kernel that Debian has let in, and its perf.
const suite = "testing"

// notNeeded are packages of what perf does only with scripts in Python, and of what is no library.
var notNeeded = regexp.MustCompile(`-(perl|stdlib|minimal|common|data|bin|extra)$|^libperl`)

var perf = apt.Program{
	Name:    "perf",
	Suite:   suite,
	Package: "linux-perf",
	With: func(name string) bool {
		return (strings.HasPrefix(name, "lib") || name == "zlib1g") && !notNeeded.MatchString(name)
	},
}

// Path is that of that perf for this machine, in the cache, whether it is there or not.
func Path() (string, error) {
	dir, err := directory()
	return filepath.Join(dir, perf.Name), err
}

// Get returns the path of the perf of Debian testing, out of the cache if it is there. It runs with the libraries of that
// suite, which stand beside it: nothing is installed. To get a newer one, remove its directory from the cache.
func Get() (string, error) {
	dir, err := directory()
	if err != nil {
		return "", err
	}
	return perf.Get(dir)
}

func directory() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "bperf", "upstream", suite+"-"+runtime.GOARCH), err
}
