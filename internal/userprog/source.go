package userprog

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Source is the origin of a program that runs on samples. One of File, Pinned and ID is set.
type Source struct {
	File   string // path of an object file
	Name   string // the program in File; empty for the only one
	Pinned string // path of a pinned program in bpffs
	ID     uint32 // ID of a loaded program
}

// targetArch maps GOARCH to libbpf's name of the architecture, which follows __TARGET_ARCH_.
var targetArch = map[string]string{"amd64": "x86", "arm64": "arm64"}

// parseSource parses FILE.o[:NAME], pinned:PATH and id:N.
func parseSource(s string) (Source, error) {
	if path, ok := strings.CutPrefix(s, "pinned:"); ok {
		if path == "" {
			return Source{}, errors.New("pinned: a path in bpffs is missing, such as pinned:/sys/fs/bpf/NAME")
		}
		return Source{Pinned: path}, nil
	}
	if number, ok := strings.CutPrefix(s, "id:"); ok {
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil || id == 0 {
			return Source{}, fmt.Errorf("%s: give the number of a loaded program, as bperf prog list shows it", s)
		}
		return Source{ID: uint32(id)}, nil
	}
	src := Source{File: s}
	if at := strings.LastIndexByte(s, ':'); at > 0 && isIdentifier(s[at+1:]) {
		src.File, src.Name = s[:at], s[at+1:]
	}
	if ext := filepath.Ext(src.File); ext == ".c" {
		object := strings.TrimSuffix(src.File, ext) + ".o"
		return Source{}, fmt.Errorf("%s is source code. bperf loads what clang makes of it: "+
			"clang -O2 -g -target bpf -D__TARGET_ARCH_%s -c %s -o %s", src.File, targetArch[runtime.GOARCH], src.File, object)
	}
	return src, nil
}

func (s Source) String() string {
	switch {
	case s.Pinned != "":
		return "pinned:" + s.Pinned
	case s.ID != 0:
		return fmt.Sprintf("id:%d", s.ID)
	case s.Name != "":
		return s.File + ":" + s.Name
	}
	return s.File
}

// isIdentifier reports whether s is a C identifier.
func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
