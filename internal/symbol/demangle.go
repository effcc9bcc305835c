package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Mangled names can refer to parts of themselves, so a short name can grow without bound. Demangle leaves names longer than maxMangled
// bytes alone and makes none longer than 2^maxDemangled bytes.
const (
	maxMangled   = 16 << 10
	maxDemangled = 14
)

// Demangle returns the source name of a symbol that a C++ or Rust compiler mangled, and every other name unchanged. Like perf, it leaves
// out parameters and the hash at the end of Rust names.
func Demangle(name string) string {
	if !isMangled(name) || len(name) > maxMangled {
		return name
	}
	// The demangler does not accept the suffixes of linkers: foo@plt, foo@@VERS_1. It handles those of compilers itself: foo.cold,
	// foo.llvm.123.
	base, suffix := name, ""
	if i := strings.IndexByte(name, '@'); i > 0 {
		base, suffix = name[:i], name[i:]
	}
	plain, err := demangle.ToString(base, demangle.NoParams, demangle.MaxLength(maxDemangled))
	if err != nil {
		return name
	}
	return plain + suffix
}

// isMangled reports whether a name starts like a mangled one: _Z in the Itanium C++ ABI and in older Rust, _R in Rust, ___Z for blocks and
// on other systems.
func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "___Z")
}
