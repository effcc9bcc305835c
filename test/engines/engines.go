// Package engines fetches the servers of fleets that tests run. It takes them from packages of Debian 12, and installs nothing: installing
// the packages would start services. What Debian does not have comes as code with Go's modules, and is compiled.
package engines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

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
	Prometheus3     = "prometheus-3" // 3.16; compiling it takes minutes
	Collector       = "collector"    // OpenTelemetry's, 0.159
)

// packages are the packages of programs.
var packages = map[string]string{Promtool: "prometheus", Prometheus: "prometheus", VictoriaMetrics: "victoria-metrics"}

// build is the program that `go install` makes of a package.
type build struct {
	program string   // its name
	version string   // part of its place in the cache
	in      string   // directory below this module where the go command runs
	args    []string // the package, after flags
}

var builds = map[string]build{
	Prometheus3: {program: "prometheus", version: "0.316.0",
		args: []string{"-tags=remove_all_sd", "github.com/prometheus/prometheus/cmd/prometheus@v0.316.0"}},
	Collector: {program: "collector", version: "0.159.0", in: "test/fleet/collector", args: []string{"."}},
}

// Path returns the path of a program in the cache. The file may not exist.
func Path(program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "bperf", "engines")
	if b, is := builds[program]; is {
		return filepath.Join(cache, "go-"+runtime.GOARCH, program+"-"+b.version, b.program), nil
	}
	return filepath.Join(cache, suite+"-"+runtime.GOARCH, packages[program], "usr", "bin", program), nil
}

// Get returns the path of a program. It fetches or compiles it if it is not in the cache.
func Get(program string) (string, error) {
	path, err := Path(program)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if b, is := builds[program]; is {
		return path, b.install(filepath.Dir(path))
	}
	if err := fetch(packages[program], filepath.Dir(filepath.Dir(filepath.Dir(path)))); err != nil {
		return "", fmt.Errorf("get %s of Debian %s: %w", program, suite, err)
	}
	return path, nil
}

// install compiles a program into dir.
func (b *build) install(dir string) error {
	return whole.Make(dir, func(tmp string) (string, error) {
		module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bperf/bperf").Output()
		if err != nil {
			return "", fmt.Errorf("find the module: %w", err)
		}
		cmd := exec.Command("go", append([]string{"install", "-trimpath", "-ldflags=-s -w"}, b.args...)...)
		cmd.Dir = filepath.Join(strings.TrimSpace(string(module)), b.in)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+tmp)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("compile %s %s: %w\n%s", b.program, b.version, err, out)
		}
		return tmp, nil
	})
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
