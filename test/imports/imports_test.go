package imports

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestModule checks the module itself, for each architecture it is built for.
func TestModule(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		packages, err := list(arch)
		if err != nil {
			t.Fatal(err)
		}
		if len(packages) == 0 {
			t.Fatal("go list found no packages")
		}
		for _, fault := range Check(packages) {
			t.Errorf("%s: %s", arch, fault)
		}
	}
}

func list(arch string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", Module+"/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
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
		packages = append(packages, p)
	}
}

func TestCheck(t *testing.T) {
	const m = Module + "/"
	tests := []struct {
		name string
		pkg  Package
		want []string
	}{
		{"down", Package{m + "internal/stat", []string{"fmt", m + "internal/count", m + "internal/perfevent"}}, nil},
		{"within its own path", Package{m + "internal/count/direct", []string{m + "internal/count"}}, nil},
		{"a boundary", Package{m + "internal/perfevent", []string{unix}}, nil},
		{"another module", Package{"golang.org/x/sys/unix", []string{"syscall"}}, nil},
		{"up", Package{m + "internal/event", []string{m + "internal/stat"}},
			[]string{"internal/event imports internal/stat, which is not below it"}},
		{"sideways", Package{m + "internal/event", []string{m + "internal/target"}},
			[]string{"internal/event imports internal/target, which is not below it"}},
		{"product code that needs a test helper", Package{m + "internal/stat", []string{m + "test/require"}},
			[]string{"internal/stat imports test/require, which is not below it"}},
		{"a package that the design does not know", Package{m + "internal/statistics", []string{unix}},
			[]string{"internal/statistics is in no layer: give it one in test/imports"}},
		{"a system call outside the boundaries", Package{m + "internal/stat", []string{unix}},
			[]string{"internal/stat imports golang.org/x/sys/unix: only internal/perfevent, internal/kernel, internal/target, internal/bpfprog, internal/symbol/object, test may"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Check([]Package{tt.pkg})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUnusedMethods checks that the linker may leave out methods that nobody calls. It keeps the exported methods of all types as soon as
// one reachable function looks up methods by a name that is not constant, as text/template does. Those methods took 2 MB.
func TestUnusedMethods(t *testing.T) {
	cmd := exec.Command("go", "build", "-o", os.DevNull, "-ldflags=-dumpdep", Module+"/cmd/bperf")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput() // the linker prints the references that it followed to its standard error
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var references int
	for line := range strings.Lines(string(out)) {
		from, to, found := strings.Cut(line, " -> ")
		if !found {
			continue
		}
		references++
		if strings.Contains(to, "<ReflectMethod>") {
			t.Errorf("%s refers to %s, which looks up methods by name", from, strings.TrimSpace(to))
		}
	}
	if references < 10000 {
		t.Errorf("the linker printed only %d references; has its format changed?", references)
	}
}

// TestExpressionsAreLazy looks for regular expressions that every command would compile at its start.
func TestExpressionsAreLazy(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if _, variables := decl.(*ast.GenDecl); !variables {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "MustCompile" {
					t.Errorf("%v: compiled at the start: use package pattern", set.Position(s.Pos()))
				}
				_, later := n.(*ast.FuncLit)
				return !later
			})
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files: %v", files, err)
	}
}
