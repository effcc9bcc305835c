package report

import (
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// sourceKeys returns the keys for source lines and files. With full, they show the whole paths of files, else only the last part.
func sourceKeys(full bool) []*key {
	line := func(name, title string, scope scope, frame func(*properties) *profile.Frame) *key {
		text := func(p *profile.Profile, of *properties, _ int) string { return sourceLine(p, frame(of), full) }
		return textKey(&key{name: name, title: title, scope: scope, needs: profile.Line | profile.Address, fills: scope == ofSample, text: text})
	}
	file := func(p *profile.Profile, of *properties, _ int) string { return sourceFile(p, of.frame, full) }
	return append([]*key{
		line("srcline", "Source:Line", ofFrame, func(of *properties) *profile.Frame { return of.frame }),
		textKey(&key{name: "srcfile", title: "Source File", scope: ofFrame, needs: profile.Line, text: file}),
	}, ofBranches(
		line("srcline_from", "From Source:Line", ofSample, func(of *properties) *profile.Frame { return of.source }),
		line("srcline_to", "To Source:Line", ofSample, func(of *properties) *profile.Frame { return of.target }),
	)...)
}

// textKey completes a key whose rows differ in its text.
func textKey(k *key) *key {
	k.identity = func(p *profile.Profile, b []byte, of *properties) []byte {
		return append(append(b, k.text(p, of, 0)...), 0)
	}
	return k
}

func sourceFile(p *profile.Profile, f *profile.Frame, full bool) string {
	file := p.Strings.At(f.File)
	if full {
		return file
	}
	return file[strings.LastIndexByte(file, '/')+1:]
}

// sourceLine returns the file and line of a frame. If these are unknown, it returns the function and the offset in it; without a function,
// the module and the address.
func sourceLine(p *profile.Profile, f *profile.Frame, full bool) string {
	if f.File != 0 {
		return sourceFile(p, f, full) + ":" + strconv.FormatUint(uint64(f.Line), 10)
	}
	if f.Function != 0 {
		function := p.Functions.At(f.Function)
		return p.Strings.At(function.Name) + "+" + strconv.FormatUint(f.Address-function.Start, 10)
	}
	return moduleName(p, f) + "[" + strconv.FormatUint(f.Address, 16) + "]"
}
