// Package binaries compiles programs and tests of this module. It compiles each only once per architecture: this machine and every guest of its
// architecture run the same file.
package binaries

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Module is the path of this module.
const Module = "github.com/bperf/bperf"

// Builder runs the go command. Its methods may be called concurrently.
type Builder struct {
	dir string

	mu    sync.Mutex
	files map[string]func() (string, error) // by environment and arguments of the go command
}

// New returns a Builder. It keeps its files in a temporary directory until Remove.
func New() (*Builder, error) {
	dir, err := os.MkdirTemp("", "bperf-test-")
	return &Builder{dir: dir, files: map[string]func() (string, error){}}, err
}

// Remove removes the files.
func (b *Builder) Remove() { os.RemoveAll(b.dir) }

// Program compiles a main package for an architecture, named as in Go, and returns the file.
func (b *Builder) Program(arch, pkg string) (string, error) {
	return b.compile(environment(arch, false), "build", "-trimpath", "-ldflags=-s -w", pkg)
}

// Tests compiles a package's tests and returns the file.
func (b *Builder) Tests(arch, pkg string) (string, error) {
	// `make check` runs vet. The linker flags are those of `go test`.
	return b.compile(environment(arch, false), "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", pkg)
}

// RaceTests compiles a package's tests with the race detector, for this machine, and returns the file.
func (b *Builder) RaceTests(arch, pkg string) (string, error) {
	return b.compile(environment(arch, true), "test", "-c", "-trimpath", "-vet=off", "-race", "-ldflags=-s -w", pkg)
}

func environment(arch string, cgo bool) []string {
	enabled := "CGO_ENABLED=0"
	if cgo {
		enabled = "CGO_ENABLED=1"
	}
	return []string{"GOOS=linux", "GOARCH=" + arch, enabled}
}

// compile runs the go command, unless it ran before with the same arguments. The last argument is the package.
func (b *Builder) compile(env []string, args ...string) (string, error) {
	key := fmt.Sprint(env, args)
	b.mu.Lock()
	get, is := b.files[key]
	if !is {
		file := filepath.Join(b.dir, strconv.Itoa(len(b.files)))
		last := len(args) - 1
		command := append(append([]string{}, args[:last]...), "-o", file, args[last])
		get = sync.OnceValues(func() (string, error) {
			_, err := run(env, command...)
			return file, err
		})
		b.files[key] = get
	}
	b.mu.Unlock()
	return get()
}

func run(env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// Package is a package of this module that has tests, as `go list -json` describes it.
type Package struct {
	Dir          string
	ImportPath   string
	TestGoFiles  []string
	XTestGoFiles []string
}

// Path returns the package's directory in the module, which is also its directory below /src in a guest.
func (p *Package) Path() string { return strings.TrimPrefix(p.ImportPath, Module+"/") }

// Tests returns the names of the package's tests, fuzz tests and examples.
func (p *Package) Tests() ([]string, error) {
	var names []string
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && f.Name.Name != "TestMain" && isTest.MatchString(f.Name.Name) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names, nil
}

// isTest matches the names of functions that a test binary runs without further flags.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)(\P{Ll}|$)`)

// List returns the packages with tests among those that match the patterns.
func List(arch string, patterns []string) ([]Package, error) {
	out, err := run(environment(arch, false), append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []Package
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
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

// ModuleDir returns the directory of this module.
func ModuleDir() (string, error) {
	out, err := run(nil, "list", "-m", "-f", "{{.Dir}}")
	return strings.TrimSpace(string(out)), err
}
