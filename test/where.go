package main

import (
	"regexp"
	"strings"
)

// host is the name of this machine's kernel. Guests' kernels have names ARCH/SUITE.
const host = "host"

// where is the place where tests run, and the way they run.
type where struct {
	kernel string // host, or ARCH/SUITE
	race   bool   // with the race detector
	pkg    string // the package, if there is only one
	flags  string // further flags of test/guest, each with a space behind it
}

func (w where) String() string {
	if w.race {
		return w.kernel + " -race"
	}
	return strings.TrimSpace(w.kernel + " " + w.flags)
}

// again returns the command that repeats a test, or all tests of a package if test is empty.
func (w where) again(pkg, test string) string {
	run := ""
	if test != "" {
		run = "-run '" + pattern(test) + "' "
	}
	switch {
	case w.kernel != host:
		return "go run ./test/guest -perf " + w.flags + "-kernel " + w.kernel + " " + run + "./" + pkg
	case w.race:
		return "CGO_ENABLED=1 go test -race -count=1 -v " + run + "./" + pkg
	}
	return "go test -count=1 -v " + run + "./" + pkg
}

// pattern returns the -run expression that matches only the given test or subtest.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(p), "'", ".") + "$"
	}
	return strings.Join(parts, "/")
}
