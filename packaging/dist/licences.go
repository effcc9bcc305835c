package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A module is one whose code is in the binary.
type module struct {
	path, version string
	sum           string // of go.sum, "h1:…"; empty for Go's standard library
	licence       string // an SPDX expression
	texts         []licenceText
}

// A licenceText is a file of a module: a licence, or a notice that belongs to it.
type licenceText struct {
	name string // within the module
	text string
}

// A listedPackage has the fields of `go list -json` that name a package's files and module.
type listedPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// linkedModules returns the modules whose packages are in a binary, sorted by path, with their licences. Go's standard library is the
// first. It fails if a module has no licence that it knows.
func (r release) linkedModules(ctx context.Context, arch, binary string) ([]module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	packages, err := r.linkedPackages(ctx, arch)
	if err != nil {
		return nil, err
	}
	type source struct {
		version, dir string
		packages     []string // directories
	}
	sources := map[string]source{}
	for _, p := range packages {
		m := p.Module
		if p.Standard || m.Main {
			continue
		}
		if m.Replace != nil {
			return nil, fmt.Errorf("go.mod replaces %s: a release has only what others can get", m.Path)
		}
		sources[m.Path] = source{m.Version, m.Dir, append(sources[m.Path].packages, p.Dir)}
	}
	standard, err := r.standardLibrary(ctx, arch, info.GoVersion)
	if err != nil {
		return nil, err
	}
	modules := []module{standard}
	for _, dep := range info.Deps {
		s, there := sources[dep.Path]
		if !there || s.version != dep.Version {
			return nil, fmt.Errorf("%s has %s %s, which go list does not name", binary, dep.Path, dep.Version)
		}
		delete(sources, dep.Path)
		m, err := licensed(module{path: dep.Path, version: dep.Version, sum: dep.Sum}, s.dir, s.packages)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	if len(sources) != 0 {
		return nil, fmt.Errorf("%s does not have these modules, which go list names: %v", binary, slices.Sorted(maps.Keys(sources)))
	}
	return modules, nil
}

func (r release) linkedPackages(ctx context.Context, arch string) ([]listedPackage, error) {
	out, err := r.goCommand(ctx, arch, "list", "-deps", "-json=ImportPath,Dir,Standard,Module", "./cmd/bperf")
	if err != nil {
		return nil, err
	}
	var packages []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// standardLibrary returns Go's standard library and runtime as a module. Modules that are copied into it have the same authors and licence.
func (r release) standardLibrary(ctx context.Context, arch, version string) (module, error) {
	goroot, err := r.goCommand(ctx, arch, "env", "GOROOT")
	if err != nil {
		return module{}, err
	}
	dir := strings.TrimSpace(string(goroot))
	return licensed(module{path: "std", version: version}, dir, []string{dir})
}

// licensed adds the licences of a module: of its root, and of directories on the way to the packages, which may have others' code.
func licensed(m module, root string, packages []string) (module, error) {
	dirs := map[string]bool{}
	for _, dir := range packages {
		for ; dir != root; dir = filepath.Dir(dir) {
			if rel, err := filepath.Rel(root, dir); err != nil || strings.HasPrefix(rel, "..") {
				return m, fmt.Errorf("%s is not in %s, the directory of %s", dir, root, m.path)
			}
			dirs[dir] = true
		}
	}
	dirs[root] = true
	known := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return m, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !isLicenceName(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return m, err
			}
			name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return m, err
			}
			m.texts = append(m.texts, licenceText{name, string(text)})
			ids := identify(string(text))
			if len(ids) == 0 && isLicence(e.Name()) {
				return m, fmt.Errorf("%s %s: unknown licence in %s: read it, then add it to identify or drop the module", m.path, m.version, name)
			}
			for _, id := range ids {
				known[id] = true
			}
		}
	}
	if len(known) == 0 {
		return m, fmt.Errorf("%s %s has no licence in %s: nobody may distribute it", m.path, m.version, root)
	}
	m.licence = strings.Join(slices.Sorted(maps.Keys(known)), " AND ")
	return m, nil
}

// isLicenceName reports whether a file has a licence, or a notice that belongs to one, by its name.
func isLicenceName(name string) bool {
	return isLicence(name) || hasStem(name, "notice", "patents", "copyright")
}

func isLicence(name string) bool { return hasStem(name, "license", "licence", "copying") }

// hasStem reports whether the name of a text file is one of the stems, or one followed by an extension or by another word.
func hasStem(name string, stems ...string) bool {
	lower := strings.ToLower(name)
	switch filepath.Ext(lower) {
	case ".go", ".sh", ".py", ".json", ".yml", ".yaml":
		return false
	}
	for _, stem := range stems {
		if rest, found := strings.CutPrefix(lower, stem); found && (rest == "" || strings.ContainsAny(rest[:1], ".-_")) {
			return true
		}
	}
	return false
}

// identify returns the SPDX identifiers of the licences whose text is in a file. Each is recognized by a sentence that only it has.
func identify(text string) []string {
	t := strings.ToLower(strings.Join(strings.Fields(text), " "))
	var ids []string
	if strings.Contains(t, "apache license version 2.0, january 2004") {
		ids = append(ids, "Apache-2.0")
	}
	if strings.Contains(t, "redistributions in binary form must reproduce") {
		if strings.Contains(t, "neither the name") || strings.Contains(t, "may not be used to endorse") {
			ids = append(ids, "BSD-3-Clause")
		} else {
			ids = append(ids, "BSD-2-Clause")
		}
	}
	if strings.Contains(t, "permission is hereby granted, free of charge, to any person obtaining a copy") {
		ids = append(ids, "MIT")
	}
	return ids
}

// notices returns one text with the licences of all modules.
func notices(modules []module) []byte {
	var b bytes.Buffer
	b.WriteString("bperf is one static binary. It contains code of these modules, under these licences:\n\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "    %s %s (%s)\n", m.path, m.version, m.licence)
	}
	for _, m := range modules {
		for _, t := range m.texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, t.name, strings.TrimRight(t.text, "\n"))
		}
	}
	return b.Bytes()
}
