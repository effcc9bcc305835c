// Package pattern has regular expressions that are compiled at their first use. Compiling them at the start takes longer than many a
// command.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles the expression when it is called for the first time. It panics there if the expression is invalid.
// Goroutines may share it.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
