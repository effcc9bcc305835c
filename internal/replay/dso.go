package replay

import (
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/profile"
)

// DSO is the source of mapped code or data: a file, or a name that stands for one. Names and build ID do not change once samples can refer
// to it; Program changes once, if the recording describes the program only then.
type DSO struct {
	Index   int    // number among the DSOs of the replay, from 0
	Path    string // as the process mapped it
	Name    string // as perf script prints it: usually Path; [virtio_net] for a module
	Short   string // as perf report prints it: the last part of Path, or Name
	BuildID []byte // nil if the recording does not have it
	Kind    profile.Kind
	Program uint32 // ID of the BPF program that it is a part of; 0 if none
	Tag     string // tag of that part, in hexadecimal
	Base    uint64 // address in memory of a module's code; 0 for everything else

	size uint64 // of the memory of kernel and BPF code, in bytes
	key  dsoKey // of a file

	inMemory bool // its addresses are those in memory, not offsets in a file
	names    namer
	code     *mappedCode
}

// mappedCode is where each part of a file's code was mapped first. Handlers read it while processes map files.
type mappedCode struct {
	mu    sync.Mutex
	parts []profile.Mapping
}

// namer finds the symbol, the inlined functions and the line of a location, as far as they are known and wanted. Several goroutines use it.
type namer interface {
	locate(l *Location)
}

// close closes the file with the symbols. No handler may be running. Afterwards the DSO has no symbols.
func (d *DSO) close() {
	if names, is := d.names.(interface{ close() }); is {
		names.close()
	}
}

// Symbol is a function or an object in memory. Its addresses are those of the DSO; see Location.Addr.
type Symbol struct {
	Name       string // demangled
	Linkage    string // the linker's name
	Start, End uint64
	StartLine  int    // line where the function begins, with Options.Lines; 0 if unknown
	Module     string // kernel module, without brackets; empty for the kernel itself and for other files
}

// dsoKey identifies a file.
type dsoKey struct {
	path         string
	major, minor uint32
	inode        uint64
	generation   uint64
	buildID      string
	pid          int32  // the process, for the code of JIT compilers
	base         uint64 // address of a module, which can be loaded again elsewhere
}

// isAnonymous reports whether a mapping has no file, by the name that the kernel, /proc/PID/maps or perf gives it.
func isAnonymous(name string) bool {
	return name == "//anon" || strings.HasPrefix(name, "[anon:") || strings.HasPrefix(name, "/dev/zero") || strings.HasPrefix(name, "/anon_hugepage")
}

func isNoFile(name string) bool {
	return strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/SYSV") || name == "[heap]"
}

// perfMap returns the path of the file in which a JIT compiler describes its code: tools/perf/Documentation/jit-interface.txt.
func perfMap(pid int32) string { return "/tmp/perf-" + strconv.Itoa(int(pid)) + ".map" }

// shortName returns the last part of a path. Names in brackets, and those of memory without a file, stay as they are. Code of JIT compilers
// gets perf's name for it.
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

// moduleName returns perf's name of a module: [virtio_net] for …/virtio-net.ko.xz. Other names stay as they are.
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

// mostParts is the maximum number of parts of a file whose mappings are kept. Linkers make one or a few.
const mostParts = 256

// add records where code of a file is mapped, unless a mapping of the same part of the file is known.
func (c *mappedCode) add(m *mapping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parts) < mostParts && !slices.ContainsFunc(c.parts, func(p profile.Mapping) bool { return m.Offset >= p.Offset && m.Offset-p.Offset < p.End-p.Start }) {
		c.parts = append(c.parts, profile.Mapping{Start: m.Start, End: m.End, Offset: m.Offset})
	}
}

// mappedSize returns the size of the memory that the code was mapped to first, in bytes; 0 if unknown.
func (d *DSO) mappedSize() uint64 {
	d.code.mu.Lock()
	defer d.code.mu.Unlock()
	if len(d.code.parts) > 0 {
		return d.code.parts[0].End - d.code.parts[0].Start
	}
	return d.size
}

// Named reports whether one of the names is that of the DSO, in any of its forms.
func (d *DSO) Named(names []string) bool {
	return slices.Contains(names, d.Path) || slices.Contains(names, d.Name) || slices.Contains(names, d.Short)
}

// HexBuildID returns the build ID in hexadecimal.
func (d *DSO) HexBuildID() string { return hex.EncodeToString(d.BuildID) }

// fileBuildID returns the build ID in hexadecimal: the recorded one, or else that of the file that processes had mapped when its symbols were
// needed.
func (d *DSO) fileBuildID() string {
	if u, is := d.names.(*userFile); is && len(d.BuildID) == 0 {
		u.open()
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.build
	}
	return d.HexBuildID()
}

// ModuleOf returns the name that tables show for a mapped file or memory, and the kind of its code as far as the name shows it. Code of
// hypervisors and guests counts as user code.
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

// ofUsers are the prefixes of names in brackets that do not belong to the kernel.
var ofUsers = []string{"[vdso]", "[vsyscall]", "[uprobes]", "[heap]", "[stack", "[anon:", "[JIT]", "[unknown]"}
