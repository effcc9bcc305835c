package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/pattern"
)

// label is the name of a frame with the places where it can be cut, in letters. What is left of a place says where the function is: an
// import path, a namespace, a type. What is right of end are parameters.
type label struct {
	name   []rune
	starts []int // ascending
	end    int
}

// cloneSuffix matches what compilers append to the names of parts of functions, and the names that Go gives to closures.
var cloneSuffix = pattern.Lazy(`^(isra|part|constprop|cold|llvm|lto_priv|localalias|func|gowrap|deferwrap|[0-9-])[0-9]*($|\.)`)

// programName matches the prefix of the names of BPF programs in the kernel's symbols, with a tag.
var programName = pattern.Lazy(`^bpf_prog_[0-9a-f]{16}_`)

// newLabel finds the places in a name. A name of something else than a function, such as that of a thread, has none.
func newLabel(name string, function bool) label {
	l := label{name: []rune(name)}
	l.end = len(l.name)
	if !function {
		return l
	}
	path := 0 // after the last slash of an import path
	var depth int
	for i, r := range l.name[:l.end] {
		switch {
		case depth == 0 && l.parametersAt(i):
			for l.end = i; l.name[l.end-1] == ' ' && l.end > 1; l.end-- {
			}
		case strings.ContainsRune("([{<", r):
			depth++
		case strings.ContainsRune(")]}>", r):
			depth = max(0, depth-1)
		case depth == 0 && r == '/':
			path, l.starts = i+1, append(l.starts[:0], i+1)
		case depth == 0 && i > path && l.separates(i):
			l.starts = append(l.starts, i+1)
		}
		if l.end <= i {
			break
		}
	}
	if m := programName().FindString(string(l.name)); m != "" {
		l.starts = append(l.starts, len(m))
	}
	l.starts = slices.DeleteFunc(l.starts, func(at int) bool { return at >= l.end })
	return l
}

// parametersAt reports whether parameters, or a remark in brackets, begin at a position: not the receiver of a method of Go, nor
// (anonymous namespace) of C++.
func (l *label) parametersAt(i int) bool {
	if i == 0 || l.name[i] != '(' && !(l.name[i] == '[' && l.name[i-1] == ' ') {
		return false
	}
	return l.name[i-1] != '.' && l.name[i-1] != ':' && !l.afterOperator(i)
}

// afterOperator reports whether the keyword of C++ ends at a position: what follows is a part of the name.
func (l *label) afterOperator(i int) bool {
	const keyword = "operator"
	return i >= len(keyword) && string(l.name[i-len(keyword):i]) == keyword
}

// separates reports whether the part of a name after a position can stand alone.
func (l *label) separates(i int) bool {
	switch l.name[i] {
	case ' ':
		return !l.afterOperator(i) // a type before: void f<int>
	case ':':
		return l.name[i-1] == ':'
	case '.':
		return !cloneSuffix().MatchString(string(l.name[i+1 : min(len(l.name), i+20)]))
	}
	return false
}

// within returns the name in at most this number of letters, or "" if there is room for fewer than three. The end of the name stays, because
// many names of a graph begin alike.
func (l *label) within(letters int) string {
	if len(l.name) <= letters {
		return string(l.name)
	}
	if letters < 3 {
		return ""
	}
	start := 0
	for _, at := range slices.Concat([]int{0}, l.starts) {
		if l.end-at <= letters {
			return string(l.name[at:l.end])
		}
		start = at
	}
	return ".." + string(l.name[max(start, l.end-letters+2):l.end])
}

// cuts returns the attribute with which the script shortens the name as within does: the starts, and last the end. It is empty for a name
// without such places.
func (l *label) cuts() string {
	if len(l.starts) == 0 && l.end == len(l.name) {
		return ""
	}
	var b strings.Builder
	for _, at := range l.starts {
		fmt.Fprint(&b, at, " ")
	}
	return fmt.Sprintf(` data-c="%s%d"`, b.String(), l.end)
}
