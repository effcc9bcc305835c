// Package engines fetches the servers of fleets that tests run. It takes them from packages of Debian 12, and installs nothing: installing
// the packages would start services.
package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

// suite has packages of servers that need no more than libc of a newer Debian.
const suite = "bookworm"

// The programs, by their names in the packages.
const (
	Promtool        = "promtool"
	Prometheus      = "prometheus" // 2.42
	VictoriaMetrics = "victoria-metrics"
)

// packages are the packages of programs.
var packages = map[string]string{Promtool: "prometheus", Prometheus: "prometheus", VictoriaMetrics: "victoria-metrics"}

// Path returns the path of a program in the cache. The file may not exist.
func Path(program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bperf", "engines", suite+"-"+runtime.GOARCH, packages[program], "usr", "bin", program), nil
}

// Get returns the path of a program, and fetches its package if it is not in the cache.
func Get(program string) (string, error) {
	path, err := Path(program)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := fetch(packages[program], filepath.Dir(filepath.Dir(filepath.Dir(path)))); err != nil {
		return "", fmt.Errorf("get %s of Debian %s: %w", program, suite, err)
	}
	return path, nil
}

// unneeded are directories of the packages that the programs work without.
var unneeded = []string{"etc", "lib", "var", filepath.Join("usr", "share"), filepath.Join("usr", "lib")}

// fetch unpacks a package into dir.
func fetch(pkg, dir string) error {
	if err := apt.Need(map[string]string{"dpkg-deb": "dpkg"}); err != nil {
		return err
	}
	return whole.Make(dir, func(tmp string) (string, error) {
		archive, err := apt.OpenArchive(suite, runtime.GOARCH)
		if err != nil {
			return "", err
		}
		defer archive.Close()
		if err := archive.Unpack(tmp, pkg); err != nil {
			return "", err
		}
		for _, d := range unneeded {
			if err := os.RemoveAll(filepath.Join(tmp, d)); err != nil {
				return "", err
			}
		}
		return tmp, nil
	})
}
