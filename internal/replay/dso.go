package replay

import (
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// DSO is what code or data was mapped from: a file, or what stands for one. Names and build ID do not change once samples can refer to it.
type DSO struct {
	Index   int    // among those of the replay, from 0 on
	Path    string // as it was mapped
	Name    string // as perf script prints it: mostly Path; [virtio_net] for a module
	Short   string // as perf report prints it: the last part of Path, or Name
	BuildID []byte // nil if the recording does not tell
	Kind    profile.Kind
	Program uint32 // the ID of the BPF program that it is a part of; 0 if none
	Tag     string // of that part, in hexadecimal
	Base    uint64 // the address in memory of a module's code; 0 for all else

	key  dsoKey            // of a file
	code []profile.Mapping // of a file: each part of its code as it was mapped first

	inMemory bool // it is known by addresses in memory, not by offsets in a file
	names    namer
}

// namer finds out what is at a place in a DSO: symbol, inlined functions and line, as far as they are known and wanted. It is used by several
// goroutines.
type namer interface {
	locate(l *Location)
}

// close closes the file that the symbols come from. No handler may be running. The DSO has no symbols afterwards.
func (d *DSO) close() {
	if names, is := d.names.(interface{ close() }); is {
		names.close()
	}
}

// Symbol is a function or an object in memory. Its addresses are of the DSO, as Mapping.Addr makes them.
type Symbol struct {
	Name       string // demangled, if that was asked for
	Linkage    string // as the linker knows it
	Start, End uint64
	StartLine  int    // where the function begins in its source file, with Options.Lines; 0 if it is not known
	Module     string // of the kernel, without brackets; empty for the kernel itself and elsewhere
}

// dsoKey is what tells files apart.
type dsoKey struct {
	path         string
	major, minor uint32
	inode        uint64
	generation   uint64
	buildID      string
	pid          int32  // of what JIT compilers made, which is of one process alone
	base         uint64 // of a module: it can be loaded again elsewhere
}

// isAnonymous tells memory that no file is behind, by the name that the kernel, /proc/PID/maps or perf gives it.
func isAnonymous(name string) bool {
	return name == "//anon" || strings.HasPrefix(name, "[anon:") || strings.HasPrefix(name, "/dev/zero") || strings.HasPrefix(name, "/anon_hugepage")
}

func isNoFile(name string) bool {
	return strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/SYSV") || name == "[heap]"
}

// perfMap is where JIT compilers write down what they made: tools/perf/Documentation/jit-interface.txt.
func perfMap(pid int32) string { return "/tmp/perf-" + strconv.Itoa(int(pid)) + ".map" }

// shortName is the last part of a path. Names in brackets, and those of memory without a file, are as they are. Code of JIT compilers is called
// as perf does it.
func shortName(name string) string {
	if rest, is := strings.CutPrefix(name, "/tmp/perf-"); is {
		if pid, err := strconv.Atoi(strings.TrimSuffix(rest, ".map")); err == nil && strings.HasSuffix(rest, ".map") {
			return "[JIT] tid " + strconv.Itoa(pid)
		}
	}
	if isAnonymous(name) || !strings.Contains(name, "/") {
		return name
	}
	return path.Base(name)
}

// moduleName is how perf calls a module: [virtio_net] for …/virtio-net.ko.xz.
func moduleName(file string) string {
	if strings.HasPrefix(file, "[") {
		return file
	}
	base, _, isModule := strings.Cut(path.Base(file), ".ko")
	if !isModule {
		return file
	}
	return "[" + strings.ReplaceAll(base, "-", "_") + "]"
}

// addCode keeps where code of a file is mapped, if none of the same part of the file is known.
func (d *DSO) addCode(m *mapping) {
	if !slices.ContainsFunc(d.code, func(c profile.Mapping) bool { return m.Offset >= c.Offset && m.Offset-c.Offset < c.End-c.Start }) {
		d.code = append(d.code, profile.Mapping{Start: m.Start, End: m.End, Offset: m.Offset})
	}
}

// HexBuildID is the build ID as it is usually written.
func (d *DSO) HexBuildID() string { return hex.EncodeToString(d.BuildID) }

// ModuleOf is what tables call the file or memory that code was mapped from, and what kind of code it is, as far as the name tells: code of hypervisors and
// guests is taken for that of users.
func ModuleOf(name string) (short string, kind profile.Kind) {
	short = shortName(moduleName(name))
	switch {
	case isImage(name) || tagOf(name) != "":
		return short, profile.BPF
	case strings.HasPrefix(short, "[") && !slices.ContainsFunc(ofUsers, func(prefix string) bool { return strings.HasPrefix(short, prefix) }):
		return short, profile.Kernel
	}
	return short, profile.User
}

// ofUsers is how names of modules in brackets begin that are not the kernel's.
var ofUsers = []string{"[vdso]", "[vsyscall]", "[uprobes]", "[heap]", "[stack", "[anon:", "[JIT]", "[unknown]"}
