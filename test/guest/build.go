package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bperf/bperf/test/guest/job"
	"github.com/bperf/bperf/test/guest/machine"
)

const module = "github.com/bperf/bperf"

// sources is where the module's directories are in a guest.
const sources = "/src"

// testTimeout is by the clock of the guest, which under -icount leaps over the time in which nothing runs.
const testTimeout = "20m"

// builder runs the go command, once for what several guests of an architecture run.
type builder struct {
	dir   string            // what was built
	files map[string]string // package and how it is built, to file
}

func newBuilder() (*builder, error) {
	dir, err := os.MkdirTemp("", "bperf-guest-")
	return &builder{dir: dir, files: map[string]string{}}, err
}

func (b *builder) remove() { os.RemoveAll(b.dir) }

// build cross-compiles what a guest runs.
func (b *builder) build(o *options, arch machine.Arch) (*content, error) {
	c := &content{
		files: map[string]string{},
		job: job.Job{
			Output: arch.Output,
			Status: arch.Status,
			Env: map[string]string{
				"PATH":          "/bin",
				"HOME":          "/tmp",
				"BPERF":         "/bin/bperf",
				"BPERF_REQUIRE": arch.Require,
			},
		},
	}
	for name, pkg := range map[string]string{"/init": "./test/guest/init", "/bin/bperf": "./cmd/bperf"} {
		file, err := b.compile(arch, pkg, "build")
		if err != nil {
			return nil, err
		}
		c.files[name] = file
	}
	if o.command != nil {
		c.job.Commands = []job.Command{{Args: o.command, Dir: "/"}}
		return c, nil
	}
	moduleDir, err := run(arch, "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	if err := c.addTestdata(strings.TrimSpace(string(moduleDir))); err != nil {
		return nil, err
	}
	packages, err := list(arch, o.packages)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		if err := b.addTests(c, arch, p, o.run); err != nil {
			return nil, err
		}
	}
	if len(c.job.Commands) == 0 {
		return nil, fmt.Errorf("%s: no test files", strings.Join(o.packages, " "))
	}
	return c, nil
}

// compile returns the file of what the go command makes of a package.
func (b *builder) compile(arch machine.Arch, pkg string, command ...string) (string, error) {
	key := strings.Join(append(command, arch.Name, pkg), " ")
	if file, is := b.files[key]; is {
		return file, nil
	}
	file := filepath.Join(b.dir, strconv.Itoa(len(b.files)))
	// With the flags of the tests on this machine and of go vet, so that what these have compiled is taken.
	if _, err := run(arch, append(command, "-ldflags=-s -w", "-o", file, pkg)...); err != nil {
		return "", err
	}
	b.files[key] = file
	return file, nil
}

// run runs the go command for the guest's architecture.
func run(arch machine.Arch, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch.Name, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return out, nil
}

// testPackage is what `go list -json` says of a package.
type testPackage struct {
	ImportPath   string
	TestGoFiles  []string
	XTestGoFiles []string
}

func list(arch machine.Arch, patterns []string) ([]testPackage, error) {
	out, err := run(arch, append([]string{"list", "-json=ImportPath,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p testPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			packages = append(packages, p)
		}
	}
}

// addTests puts a package's test binary into the guest, to run in a directory with the package's testdata.
func (b *builder) addTests(c *content, arch machine.Arch, p testPackage, run string) error {
	relative := strings.TrimPrefix(p.ImportPath, module+"/")
	file, err := b.compile(arch, p.ImportPath, "test", "-c", "-vet=off") // make check does
	if err != nil {
		return err
	}
	dir := path.Join(sources, relative)
	binary := dir + "/" + path.Base(relative) + ".test"
	c.files[binary] = file
	c.job.Commands = append(c.job.Commands, job.Command{
		Package: p.ImportPath,
		Args:    []string{binary, "-test.v", "-test.paniconexit0", "-test.timeout=" + testTimeout, "-test.run=" + run},
		Dir:     dir,
	})
	return nil
}

// addTestdata puts the testdata of every package where tests find their own, and that of their neighbours.
func (c *content) addTestdata(moduleDir string) error {
	return filepath.WalkDir(moduleDir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(name, "/testdata/") {
			return err
		}
		relative, err := filepath.Rel(moduleDir, name)
		c.files[path.Join(sources, relative)] = name
		return err
	})
}
