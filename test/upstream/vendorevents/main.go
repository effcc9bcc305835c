// Vendorevents makes the tables of package internal/event/vendor from the kernel's tools/perf/pmu-events/arch, in the source package of
// the newest kernel in Debian testing: the version of the perf that tests compare with. The source stays in the cache.
//
//	go run ./test/upstream/vendorevents [DIR]    DIR is tools/perf/pmu-events/arch of another source
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/upstream/packaged"
	"github.com/bperf/bperf/test/whole"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vendorevents:", err)
		os.Exit(1)
	}
}

// architectures are the kernel's names of architectures, by those of Go.
var architectures = map[string]string{"amd64": "x86", "arm64": "arm64"}

func run(args []string) error {
	var source string
	var err error
	if len(args) > 0 {
		source = args[0]
	} else if source, err = fetch(); err != nil {
		return err
	}
	dir, err := tables()
	if err != nil {
		return err
	}
	for arch, name := range architectures {
		models, err := read(source, name)
		if err != nil {
			return err
		}
		data, err := models.Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, arch), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tables returns the directory of the tables. go generate starts this program in internal/event/vendor.
func tables() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/bperf/bperf/internal/event/vendor").Output()
	if err != nil {
		return "", fmt.Errorf("find package internal/event/vendor: %w", err)
	}
	dir := filepath.Join(string(out[:len(out)-1]), "tables")
	return dir, os.MkdirAll(dir, 0o755)
}

// inCache returns the path of tools/perf/pmu-events/arch in the cache, where it may be missing.
func inCache() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "bperf", "upstream", packaged.Newest+"-pmu-events", inSource), err
}

// inSource is the part of the kernel's source that is needed.
const inSource = "tools/perf/pmu-events/arch"

// fetch returns the path of tools/perf/pmu-events/arch, and fetches it if it is not in the cache.
func fetch() (string, error) {
	arch, err := inCache()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(arch); err == nil {
		return arch, nil
	}
	if err := apt.Need(map[string]string{"dpkg-deb": "dpkg", "tar": "tar", "xz": "xz-utils"}); err != nil {
		return "", err
	}
	err = whole.Make(strings.TrimSuffix(arch, "/"+inSource), unpack)
	if err != nil {
		return "", fmt.Errorf("get the source of the kernel in Debian %s: %w", packaged.Newest, err)
	}
	return arch, nil
}

// unpack unpacks the part of the source that is needed below dir.
func unpack(dir string) (string, error) {
	archive, err := apt.OpenArchive(packaged.Newest, "amd64") // the package is the same for all architectures
	if err != nil {
		return "", err
	}
	defer archive.Close()
	names, err := archive.Depends("linux-source")
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", fmt.Errorf("linux-source depends on %d packages, not on one source: %v", len(names), names)
	}
	unpacked := filepath.Join(dir, "source")
	return unpacked, archive.UnpackSource(names[0], unpacked, inSource)
}
