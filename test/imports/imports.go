// Package imports checks rules of the design that the compiler does not check: which packages may make system calls directly, that packages
// import only packages of lower layers, and that the linker may leave out unused methods.
package imports

import (
	"fmt"
	"path"
	"strings"
)

// Module is the path of the module under check.
const Module = "github.com/bperf/bperf"

// Package has the fields of a package that the rules need. They have the names of `go list -json`.
type Package struct {
	ImportPath string
	Imports    []string // without the imports of test files
}

// layers are the packages from the top down, each with everything below its path. A package may import from lower
// layers, and within its own path.
var layers = [][]string{
	{"cmd/bperf", "test"},
	{"internal/cli"},
	{"internal/serve", "internal/browse", "internal/top"},
	{"internal/sample"},
	{"internal/stat", "internal/annotate", "internal/record", "internal/report", "internal/script"},
	{"internal/replay"},
	{"internal/profile", "internal/tracedata", "internal/userprog", "internal/session"},
	{"internal/count", "internal/filter", "internal/metric", "internal/offcpu", "internal/userstack"},
	{"internal/bpfprog", "internal/symbol"},
	{"internal/event", "internal/target", "internal/control"},
	{"internal/kernel"},
	{"internal/perfevent", "internal/printable", "internal/typed", "internal/config", "internal/allowance"},
	{"internal/procfs", "internal/userfile", "internal/pattern", "internal/httpd", "internal/hashindex", "examples"},
	{"perfdata"},
}

// unix is the package for system calls. boundaries are the packages that may import it.
const unix = "golang.org/x/sys/unix"

var boundaries = []string{"internal/perfevent", "internal/kernel", "internal/target", "internal/bpfprog", "internal/symbol/object", "test"}

// Check returns a sentence for each violation of the rules.
func Check(packages []Package) []string {
	var broken []string
	for _, p := range packages {
		from, inside := strings.CutPrefix(p.ImportPath, Module+"/")
		if !inside {
			continue
		}
		layer, home := locate(from)
		if layer < 0 {
			broken = append(broken, fmt.Sprintf("%s is in no layer: give it one in test/imports", from))
			continue
		}
		for _, imported := range p.Imports {
			if fault := checkImport(from, layer, home, imported); fault != "" {
				broken = append(broken, fault)
			}
		}
	}
	return broken
}

func checkImport(from string, layer int, home, imported string) string {
	if imported == unix && !within(boundaries, from) {
		return fmt.Sprintf("%s imports %s: only %s may", from, unix, strings.Join(boundaries, ", "))
	}
	to, inside := strings.CutPrefix(imported, Module+"/")
	if !inside {
		return ""
	}
	if below, there := locate(to); there != home && below <= layer {
		return fmt.Sprintf("%s imports %s, which is not below it", from, to)
	}
	return ""
}

// locate returns the layer of a package and the layer's path that contains the package. The layer is -1 if there is none.
func locate(pkg string) (layer int, home string) {
	for i, paths := range layers {
		for _, p := range paths {
			if within([]string{p}, pkg) {
				return i, p
			}
		}
	}
	return -1, ""
}

func within(paths []string, pkg string) bool {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		for _, p := range paths {
			if p == pkg {
				return true
			}
		}
	}
	return false
}
