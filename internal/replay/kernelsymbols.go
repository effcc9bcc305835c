package replay

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/kernel"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// finder returns the kernel symbol at an address.
type finder func(addr uint64) (Symbol, bool)

// kernelSymbols returns a finder for the recorded kernel. Its symbols come from a file that the user names, from this machine's kernel if
// it is the recorded one, or from a file that perf or the distribution keeps under its build ID. Without any, the error has the reasons.
func (r *Replay) kernelSymbols() (finder, error) {
	switch {
	case r.options.Vmlinux != "":
		return r.vmlinux(object.Search{}, r.options.Vmlinux, "")
	case r.options.Kallsyms != "":
		return r.kallsyms(r.options.Kallsyms)
	case r.options.KernelSymbol != nil:
		r.symbols.running = true
		return r.options.KernelSymbol, nil
	}
	id := hex.EncodeToString(r.machine.image.buildID)
	runningID := runningBuildID()
	running := hex.EncodeToString(runningID)
	var errs []error
	if id == "" || id == running {
		find, err := r.runningKernel(runningID)
		if err == nil {
			r.symbols.running = true
			return find, nil
		}
		errs = append(errs, err)
	}
	if id != "" {
		for _, name := range []string{"kallsyms", "vmlinux"} {
			find, err := r.cachedKernel(name, id)
			if err == nil {
				return find, nil
			}
			errs = append(errs, err)
		}
		release := r.reader.Features().Text(perfdata.FeatureOSRelease)
		for _, file := range []string{"/usr/lib/debug/boot/vmlinux-" + release, "/usr/lib/debug/lib/modules/" + release + "/vmlinux", "/boot/vmlinux-" + release} {
			if find, err := r.vmlinux(r.search(), file, id); err == nil {
				return find, nil
			}
		}
	}
	if id != "" && id != running {
		errs = append([]error{fmt.Errorf("the recording is of a kernel with the build ID %s, which is not the one that runs here; "+
			"give its symbols with --kallsyms or --vmlinux", id)}, errs...)
	}
	return nil, errors.Join(errs...)
}

// cachedKernel returns a finder for a file that perf buildid-cache keeps.
func (r *Replay) cachedKernel(name, id string) (finder, error) {
	file := filepath.Join(r.search().Cache, "[kernel.kallsyms]", id, name)
	if name == "kallsyms" {
		return r.kallsyms(file)
	}
	return r.vmlinux(r.search(), file, id)
}

const kallsymsFile = "/proc/kallsyms"

// runningKernel returns a finder for the running kernel. Reading kallsyms takes a quarter of the CPU time of a small report, so bperf stores the
// symbols for the next one.
func (r *Replay) runningKernel(buildID []byte) (finder, error) {
	path, key := storedKernel(buildID)
	if path == "" {
		return r.kallsyms(kallsymsFile)
	}
	name, address := r.reference()
	stored, err := allowance.Read(r.options.Allowance, path, func() (*kernel.Kallsyms, error) { return kernel.Stored(path, key, name, address) }, nil)
	if err != nil {
		all, err := r.parseKallsyms(kallsymsFile)
		if err != nil {
			return nil, err
		}
		r.symbols.storing.Go(func() {
			store := func() (bool, error) { return true, all.Store(path, key) }
			_, _ = allowance.Read(r.options.Allowance, path, store, nil) // the next run tries again
		})
		return finderOf(all), nil
	}
	all := sync.OnceValues(func() (finder, error) { return r.kallsyms(kallsymsFile) })
	return func(addr uint64) (Symbol, bool) {
		if s, ok, sure := stored.FindStored(addr); sure {
			return newSymbol(s), ok
		}
		find, err := all()
		if err != nil {
			return Symbol{}, false
		}
		return find(addr)
	}, nil
}

// storedKernel returns the file with stored symbols of the running kernel, and their key: the beginning of kallsyms, which has the addresses of
// this boot, the modules, and the build ID. It returns no file if the build ID is unknown, or if there is no directory for caches.
func storedKernel(buildID []byte) (path string, key []byte) {
	dir, err := os.UserCacheDir()
	if err != nil || len(buildID) == 0 {
		return "", nil
	}
	f, err := os.Open(kallsymsFile)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	start := make([]byte, 16<<10) // 400 symbols
	if _, err := io.ReadFull(f, start); err != nil {
		return "", nil
	}
	modules, err := procfs.Modules(os.DirFS("/proc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return filepath.Join(dir, "bperf", "kernel-symbols"), fmt.Appendf(start, "%+v%x", modules, buildID)
}

// reference returns a symbol of the recorded kernel and its address there. The name is empty if unknown.
func (r *Replay) reference() (name string, address uint64) {
	image := &r.machine.image
	if image.ref == 0 {
		return "", 0
	}
	return image.refName, image.ref
}

func (r *Replay) parseKallsyms(file string) (*kernel.Kallsyms, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name, address := r.reference()
	symbols, err := kernel.Parse(f, name, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return symbols, nil
}

func (r *Replay) kallsyms(file string) (finder, error) {
	symbols, err := r.parseKallsyms(file)
	if err != nil {
		return nil, err
	}
	return finderOf(symbols), nil
}

func finderOf(symbols *kernel.Kallsyms) finder {
	return func(addr uint64) (Symbol, bool) {
		s, ok := symbols.Find(addr)
		return newSymbol(s), ok
	}
}

func newSymbol(s kernel.Symbol) Symbol {
	return Symbol{Name: s.Name, Linkage: s.Name, Start: s.Start, End: s.End, Module: s.Module}
}

// vmlinux reads the symbols of a kernel image and moves them to the addresses of the recorded kernel.
func (r *Replay) vmlinux(search object.Search, file, id string) (finder, error) {
	image, err := search.Open(file, id)
	if err != nil {
		return nil, err
	}
	table := image.Symbols()
	delta := uint64(0)
	for s := range table.All() {
		if s.Name == r.machine.image.refName && r.machine.image.ref != 0 {
			delta = r.machine.image.ref - s.Start
		}
	}
	return func(addr uint64) (Symbol, bool) {
		s, ok := table.Find(addr - delta)
		if !ok {
			return Symbol{}, false
		}
		return Symbol{Name: s.Name, Linkage: s.Name, Start: s.Start + delta, End: s.End + delta}, true
	}, nil
}

// runningModuleBuildID returns the build ID of a loaded module. It is nil if the module is not loaded or has none.
func runningModuleBuildID(name string) []byte {
	if strings.Contains(name, "/") { // a recording can have any name
		return nil
	}
	notes, err := os.ReadFile("/sys/module/" + name + "/notes/.note.gnu.build-id")
	if err != nil {
		return nil
	}
	return object.BuildIDNote(notes, binary.NativeEndian, 4)
}

// runningModuleBase returns the address of a loaded module's code. It is 0 if the module is not loaded or the kernel hides the address.
func runningModuleBase(name string) uint64 {
	modules, err := procfs.Modules(os.DirFS("/proc"))
	if err != nil {
		return 0
	}
	for _, m := range modules {
		if m.Name == name {
			return m.Start
		}
	}
	return 0
}

// runningBuildID returns the build ID of the running kernel, from an ELF note in /sys/kernel/notes. It is nil if unknown.
func runningBuildID() []byte {
	notes, err := os.ReadFile("/sys/kernel/notes")
	if err != nil {
		return nil
	}
	return object.BuildIDNote(notes, binary.NativeEndian, 4)
}

// isKernel reports whether an address outside the recorded mappings is in the kernel itself. The recording leaves out what follows the
// kernel's code, such as its init code.
func (r *Replay) isKernel(addr uint64) bool {
	_, ok := r.symbols.findKernel(addr)
	return ok
}
