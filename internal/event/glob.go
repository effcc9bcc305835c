package event

import (
	"path"
	"strings"
)

// isGlob reports whether a name is a pattern.
func isGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// globber matches names against a pattern of the shell's kind: *, ?, [a-z], [!a-z].
func globber(pattern string) func(string) bool {
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	return func(name string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}
}
