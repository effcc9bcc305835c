package object

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/pattern"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// Search configures where to find files and their debugging information. The zero value uses only the paths themselves.
type Search struct {
	// Root is the directory that paths start in: /proc/PID/root for a process in a container. Empty is this process's root.
	Root string

	// Debug lists the directories of debugging information, below Root and below this process's root. The usual one is /usr/lib/debug.
	Debug []string

	// Cache is the directory where perf keeps the files of recordings by their build IDs, usually ~/.debug.
	Cache string

	// Sections is the directory where decompressed sections of DWARF stay for later runs. Empty stores none.
	Sections string

	// Allowance limits the time to read files. Nil sets no limit.
	Allowance *allowance.Allowance

	// Debuginfod fetches debugging information that is in none of these places, of files without symbols. Nil fetches nothing.
	Debuginfod *debuginfod.Client

	// Lines makes Debuginfod fetch it also for files with symbols, for their lines.
	Lines bool
}

// DefaultSearch returns a Search of the directories where distributions and perf put files. An empty cache is ~/.debug. Sections is
// ~/.cache/bperf/sections.
func DefaultSearch(cache string) Search {
	s := Search{Debug: []string{"/usr/lib/debug"}, Cache: cache}
	if dir, err := os.UserCacheDir(); err == nil {
		s.Sections = filepath.Join(dir, "bperf", "sections")
	}
	if home, err := os.UserHomeDir(); err == nil && cache == "" {
		s.Cache = filepath.Join(home, ".debug")
	}
	return s
}

// Open opens the ELF file at a path, or this kernel's [vdso], together with its debugging information. If buildID is not empty (in
// hexadecimal digits), Open opens the file of that build: if the file at path is missing or has another build ID, Open searches Debug and
// Cache. If that fails too, the error reports what was at path.
func (s Search) Open(path, buildID string) (*File, error) {
	f, err := s.openBuild(path, buildID)
	if err != nil {
		return nil, err
	}
	f.path = path
	s.addDebug(f)
	return f, nil
}

// MappedFile returns the path of the file that a process has mapped at the given addresses, as in /proc/PID/maps. The path works even after
// the file was deleted or replaced. Opening it needs CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
func MappedFile(pid int32, start, end uint64) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, start, end)
}

// mappedFile matches the paths of MappedFile.
var mappedFile = pattern.Lazy(`^/proc/[0-9]+/map_files/[0-9a-f]+-[0-9a-f]+$`)

// OpenMapped opens the ELF file at link, a path of MappedFile, in the way that Open opens path. path is where the file was when it was
// mapped.
func (s Search) OpenMapped(link, path, buildID string) (*File, error) {
	f, err := openFile(s.Allowance, "", link)
	if err == nil && buildID != "" {
		err = f.mustBe(link, buildID)
	}
	if err != nil {
		return nil, err
	}
	f.path = path
	s.addDebug(f)
	return f, nil
}

func (s Search) openBuild(path, buildID string) (*File, error) {
	f, err := s.openPath(path)
	if err == nil && buildID != "" {
		err = f.mustBe(filepath.Join(s.Root, path), buildID)
	}
	if err == nil {
		return f, nil
	}
	candidates := slices.Concat(
		s.byBuildID(buildID, "elf", ""),
		s.byBuildID(buildID, "vdso", ""),
		// A file of debugging information has the symbols and lines of the file that it was split from, but not its code.
		s.byBuildID(buildID, "debug", ".debug"),
	)
	for _, c := range candidates {
		if kept, keptErr := c.open(s.Allowance, buildID); keptErr == nil {
			return kept, nil
		}
	}
	return nil, err
}

func (s Search) openPath(path string) (*File, error) {
	if path == vdso {
		return VDSO()
	}
	return openFile(s.Allowance, s.Root, path)
}

// mustBe returns an error and closes the file if it has another build ID.
func (f *File) mustBe(path, buildID string) error {
	id := f.BuildID()
	if id == buildID {
		return nil
	}
	return errors.Join(fmt.Errorf("%s is of another build: its build ID is %s, not %s", path, cmp.Or(id, "(none)"), buildID), f.Close())
}

// candidate is a path that a file may have.
type candidate struct {
	root, path string
	copied     bool // perf copied it to its cache
}

func (c candidate) open(a *allowance.Allowance, buildID string) (*File, error) {
	path := filepath.Join(c.root, c.path)
	f, err := openFile(a, c.root, c.path)
	if err == nil {
		err = f.mustBe(path, buildID)
	}
	if err != nil {
		return nil, err
	}
	f.path = path
	if c.copied {
		f.owner = nobody
	}
	return f, nil
}

// byBuildID returns candidates for the file of a build: in the cache, which has a directory for each build, and, if extension is not empty,
// in the directories of debugging information.
func (s Search) byBuildID(id, name, extension string) []candidate {
	if len(id) < 4 {
		return nil
	}
	var candidates []candidate
	if extension != "" {
		for _, dir := range s.Debug {
			for _, root := range s.roots() {
				candidates = append(candidates, candidate{root: root, path: filepath.Join(dir, ".build-id", id[:2], id[2:]+extension)})
			}
		}
	}
	if s.Cache != "" {
		candidates = append(candidates, candidate{path: filepath.Join(s.Cache, ".build-id", id[:2], id[2:], name), copied: true})
	}
	return candidates
}

func (s Search) roots() []string {
	if s.Root == "" || s.Root == "/" {
		return []string{""}
	}
	return []string{s.Root, ""}
}

// addDebug opens the files with symbols and lines that f itself lacks.
func (s Search) addDebug(f *File) {
	f.debugInfo.store = &store{s.Sections, s.Allowance}
	if f.debug == nil && !f.image.hasDWARF() {
		f.debug = s.findDebug(f)
	}
	holder := f
	if f.debug != nil {
		holder = f.debug
	}
	if f.sup == nil {
		f.sup = s.findSupplement(f, holder)
	}
}

// findDebug opens the file with the debugging information of f: that of its build, or else the one that .gnu_debuglink names, or else one
// of debuginfod. It returns nil if there is none.
func (s Search) findDebug(f *File) *File {
	if id := f.BuildID(); id != "" {
		for _, c := range s.byBuildID(id, "debug", ".debug") {
			if d, err := c.open(s.Allowance, id); err == nil {
				return d
			}
		}
	}
	if name, sum, ok := f.image.debugLink(); ok {
		for _, c := range s.byLink(f.path, name) {
			if d, err := c.openSum(s.Allowance, f.BuildID(), sum); err == nil {
				return d
			}
		}
	}
	if s.Debuginfod == nil || !s.wantsMore(f) {
		return nil
	}
	d, _ := s.fetchDebug(f.BuildID(), f.path) // the client reports what is wrong
	return d
}

// byLink returns candidates for a file that .gnu_debuglink names (gdb's documentation, "Debugging Information in Separate Files").
func (s Search) byLink(path, name string) []candidate {
	dir := filepath.Dir(path)
	candidates := []candidate{{root: s.Root, path: filepath.Join(dir, name)}, {root: s.Root, path: filepath.Join(dir, ".debug", name)}}
	for _, debug := range s.Debug {
		for _, root := range s.roots() {
			candidates = append(candidates, candidate{root: root, path: filepath.Join(debug, dir, name)})
		}
	}
	return candidates
}

// openSum opens a file that has the build ID, or otherwise the checksum.
func (c candidate) openSum(a *allowance.Allowance, buildID string, sum uint32) (*File, error) {
	f, err := openFile(a, c.root, c.path)
	if err != nil {
		return nil, err
	}
	f.path = filepath.Join(c.root, c.path)
	if id := f.BuildID(); buildID != "" && id == buildID {
		return f, nil
	}
	var found uint32
	err = guard(func() (err error) { found, err = f.image.checksum(); return err })
	if err != nil {
		err = fmt.Errorf("%s: %w", f.path, err)
	}
	if err == nil && found != sum {
		err = fmt.Errorf("%s has the checksum %08x, not %08x, which the program names", f.path, found, sum)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checksum returns the CRC-32 of the contents. It keeps only a part of a large file in memory.
func (i *image) checksum() (sum uint32, err error) {
	if len(i.data) > maxChecked {
		return 0, fmt.Errorf("it has %d bytes, and a checksum is made of at most %d", len(i.data), maxChecked)
	}
	for part := range slices.Chunk(i.data, small) {
		sum = crc32.Update(sum, crc32.IEEETable, part)
		i.forget()
	}
	return sum, nil
}

// debugLink returns the contents of .gnu_debuglink: the name of a file, and the CRC-32 of its contents.
func (i *image) debugLink() (name string, sum uint32, ok bool) {
	_ = guard(func() error {
		var rest []byte
		if name, rest, ok = i.link(".gnu_debuglink"); !ok {
			return nil
		}
		if at := (len(name) + 1 + 3) &^ 3; at+4 <= len(name)+1+len(rest) {
			sum = i.elf.ByteOrder.Uint32(rest[at-len(name)-1:])
			return nil
		}
		ok = false
		return nil
	})
	return name, sum, ok && filepath.Base(name) == name
}

// link reads a section that starts with the name of a file.
func (i *image) link(section string) (name string, rest []byte, ok bool) {
	s := i.section(section)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return "", nil, false
	}
	data := i.slice(s.Offset, s.FileSize)
	end := bytes.IndexByte(data, 0)
	if end <= 0 {
		return "", nil, false
	}
	return string(data[:end]), data[end+1:], true
}

// findSupplement opens the file that .gnu_debugaltlink of holder names, where dwz moves what several files share. It returns nil if there
// is none.
func (s Search) findSupplement(f, holder *File) *File {
	var name, id string
	_ = guard(func() error {
		n, rest, ok := holder.image.link(".gnu_debugaltlink")
		if ok {
			name, id = n, hex.EncodeToString(rest)
		}
		return nil
	})
	if name == "" {
		return nil
	}
	candidates := s.byBuildID(id, "debug", ".debug")
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(holder.path), name)
	}
	for _, root := range s.roots() {
		candidates = append(candidates, candidate{root: root, path: name})
	}
	for _, c := range candidates {
		if found, err := c.open(s.Allowance, id); err == nil {
			return found
		}
	}
	if s.Debuginfod == nil {
		return nil
	}
	found, _ := s.fetchDebug(id, name) // the client reports what is wrong
	return found
}
