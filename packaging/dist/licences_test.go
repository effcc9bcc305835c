package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mit  = "Permission is hereby granted, free of charge,\nto any person obtaining a copy of this software"
	bsd2 = "Redistributions in binary form must\n   reproduce the above copyright notice"
	bsd3 = bsd2 + "\nNeither the name of the author may be used"
)

func TestLicensed(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		licence string   // wanted
		texts   []string // names of the files wanted
		err     string
	}{
		{"one", map[string]string{"LICENSE": mit}, "MIT", []string{"LICENSE"}, ""},
		{"with notice", map[string]string{"COPYING.md": bsd3, "NOTICE": "By us."}, "BSD-3-Clause", []string{"COPYING.md", "NOTICE"}, ""},
		{"of a package below", map[string]string{"LICENSE": mit, "a/b/LICENSE.txt": bsd2}, "BSD-2-Clause AND MIT",
			[]string{"LICENSE", "a/b/LICENSE.txt"}, ""},
		{"of another package", map[string]string{"LICENSE": mit, "other/LICENSE": bsd2}, "MIT", []string{"LICENSE"}, ""},
		{"code", map[string]string{"LICENSE": mit, "license.go": "package a", "licensee.txt": ""}, "MIT", []string{"LICENSE"}, ""},
		{"none", map[string]string{"README": mit}, "", nil, "has no licence"},
		{"notice alone", map[string]string{"NOTICE": "By us."}, "", nil, "has no licence"},
		{"unknown", map[string]string{"LICENSE": "You may look at it."}, "", nil, "unknown licence"},
		{"unknown below", map[string]string{"LICENSE": mit, "a/COPYING": "GNU GENERAL PUBLIC LICENSE"}, "", nil, "unknown licence in a/COPYING"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o777); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			m, err := licensed(module{path: "example.com/m", version: "v1.0.0"}, root, []string{filepath.Join(root, "a/b")})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, text := range m.texts {
				names = append(names, text.name)
			}
			if m.licence != c.licence || !slices.Equal(names, c.texts) {
				t.Errorf("%q of %q, want %q of %q", m.licence, names, c.licence, c.texts)
			}
			all := string(notices([]module{m}))
			for _, text := range m.texts {
				if !strings.Contains(all, text.text) {
					t.Errorf("%s is not in the notices", text.name)
				}
			}
		})
	}
}
