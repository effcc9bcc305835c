package report

import (
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// sourceKeys returns the keys for source lines and files. With full, they show the whole paths of files, else only the last part.
func sourceKeys(full bool) []*key {
	line := func(p *profile.Profile, of *properties, _ int) string { return sourceLine(p, &of.frame, full) }
	file := func(p *profile.Profile, of *properties, _ int) string { return sourceFile(p, &of.frame, full) }
	return []*key{
		{
			name: "srcline", title: "Source:Line", scope: ofFrame, needs: profile.Line | profile.Address,
			identity: func(p *profile.Profile, b []byte, of *properties) []byte {
				return append(append(b, line(p, of, 0)...), 0)
			},
			text: line,
		},
		{
			name: "srcfile", title: "Source File", scope: ofFrame, needs: profile.Line,
			identity: func(p *profile.Profile, b []byte, of *properties) []byte {
				return append(append(b, file(p, of, 0)...), 0)
			},
			text: file,
		},
	}
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
