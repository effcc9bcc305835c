package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxMangled is the longest name that is demangled, and maxDemangled as a power of two the longest that is made of it:
// mangled names can refer to parts of themselves, and grow beyond measure.
const (
	maxMangled   = 16 << 10
	maxDemangled = 14
)

// Demangle makes the name that the source code has of one that a C++ or Rust compiler made, and returns others as they
// are. As in perf, parameters are left out, and so is the hash at the end of Rust's names.
func Demangle(name string) string {
	if !isMangled(name) || len(name) > maxMangled {
		return name
	}
	// What the linker and the compiler append is no part of the mangled name: foo@plt, foo.cold, foo.llvm.123, foo@@VERS_1.
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

// isMangled tells the names of the Itanium C++ ABI and of Rust, of which the older ones look like C++, by their start.
// The prefixes with more underscores are those of symbols of blocks and of other systems.
func isMangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "___Z")
}
