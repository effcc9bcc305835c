package eventfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/userfile"
)

// Variable is the environment variable that names a directory of event files.
const Variable = "BPERF_EVENT_FILES"

// Limits of a directory. The largest of the kernel's has 370 files.
const (
	maxNames = 4096     // in one directory
	maxFile  = 64 << 20 // bytes
	maxBytes = 256 << 20
	maxMap   = 1 << 20 // bytes of mapfile.csv
)

// mapName is the name of the map of CPUs.
const mapName = "mapfile.csv"

// Source is a directory of event files.
type Source struct {
	Dir string
	// Named says that the user named the directory. Then a file that cannot be used is an error.
	Named bool
}

// Find returns the directory of event files: the named one, else that of $BPERF_EVENT_FILES, else the one in which pmu-tools keeps the files
// that it fetches, which need not exist. It reads nothing. It returns nil if there is no such directory.
func Find(named string, getenv func(string) string) *Source {
	if named == "" {
		named = getenv(Variable)
	}
	if named != "" {
		return &Source{Dir: named, Named: true}
	}
	const ofTools = "pmu-events"
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return &Source{Dir: filepath.Join(cache, ofTools)}
	}
	if home := getenv("HOME"); home != "" {
		return &Source{Dir: filepath.Join(home, ".cache", ofTools)}
	}
	return nil
}

// Load returns what the files have for a CPU, named as for vendor.ForCPU, and warnings. The table is nil if they have nothing for it. An
// error names the file and how to do without it.
func (s *Source) Load(cpuid string) (*vendor.Table, []string, error) {
	l := loading{Source: s, std: Standard{}}
	err := l.load(cpuid)
	switch {
	case errors.Is(err, errForeign):
		l.warn("the event files in %s are ignored: they belong to another user; if you trust that user, name the directory with --event-files", s.Dir)
		return nil, l.warnings, nil
	case err != nil && !s.Named:
		l.warn("event files are not used: %v; remove %s, or name another directory with --event-files", err, s.Dir)
		return nil, l.warnings, nil
	case err != nil && !l.found:
		return nil, nil, fmt.Errorf("event files: %w; name their directory with --event-files or $%s", err, Variable)
	case err != nil:
		return nil, nil, fmt.Errorf("event files: %w; correct or remove the file, or name another directory with --event-files or $%s", err, Variable)
	}
	if len(l.model.Events) == 0 && len(l.model.Metrics) == 0 {
		if l.found && s.Named { // the files that pmu-tools fetched can be for other machines with the same home
			l.warn("the event files in %s have nothing for this CPU, %s", s.Dir, cpuid)
		}
		return nil, l.warnings, nil
	}
	return l.model.Table(), l.warnings, nil
}

// errForeign means that a file belongs to another user, who would control what root's commands count.
var errForeign = errors.New("belongs to another user")

// loading is what Load has read so far.
type loading struct {
	*Source
	model    Model
	std      Standard
	bytes    int
	entries  int
	found    bool          // the directory exists
	files    []fs.FileInfo // those read: pmu-tools links some under a second name
	warnings []string
}

func (l *loading) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loading) load(cpuid string) error {
	names, err := jsonFiles(l.Dir)
	if err != nil && !l.Named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission)) {
		return nil // not every user has a home
	}
	if err != nil {
		return err
	}
	l.found = true
	rows, err := l.readMap()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.loadUnmapped(names, cpuid)
	case err != nil:
		return err
	}
	for _, row := range rows {
		if !vendor.Fits(cpuid, row.Pattern) {
			continue
		}
		if !strings.HasSuffix(row.Model, ".json") {
			return l.loadModel(row.Model, names)
		}
		if err := l.loadPerfmon(row, cpuid); err != nil {
			return err
		}
	}
	return nil
}

// jsonFiles returns the names of the JSON files of a directory, in alphabetical order.
func jsonFiles(dir string) ([]string, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames + 1)
	switch {
	case err != nil && err != io.EOF: // an empty directory
		return nil, err
	case len(names) > maxNames:
		return nil, fmt.Errorf("%s has more than %d files", dir, maxNames)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".json") })
	slices.Sort(names)
	return names, nil
}

func (l *loading) readMap() ([]Row, error) {
	path := filepath.Join(l.Dir, mapName)
	data, err := l.read(path, maxMap)
	if err != nil {
		return nil, err
	}
	rows, err := ReadMap(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// loadModel reads the kernel's directory of a model, beside which are the entries that models of an architecture refer to.
func (l *loading) loadModel(model string, standard []string) error {
	if !filepath.IsLocal(model) {
		return fmt.Errorf("%s names the directory %q, which is outside of %s", filepath.Join(l.Dir, mapName), model, l.Dir)
	}
	for _, name := range standard {
		entries, err := l.decode(filepath.Join(l.Dir, name))
		if err != nil {
			return err
		}
		l.std.Add(entries)
	}
	dir := filepath.Join(l.Dir, model)
	names, err := jsonFiles(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.loadFiles(dir, names)
}

// loadPerfmon reads the file of a row of perfmon's map if there is one: at its path, as in perfmon's repository, or under one of the two
// names that pmu-tools gives it.
func (l *loading) loadPerfmon(row Row, cpuid string) error {
	if row.Type == "metrics" || row.Type == "retire latency" {
		return nil // they are in other formats
	}
	path := strings.TrimPrefix(row.Model, "/")
	if !filepath.IsLocal(path) {
		return fmt.Errorf("%s names the file %q, which is outside of %s", filepath.Join(l.Dir, mapName), row.Model, l.Dir)
	}
	for _, name := range append([]string{path, filepath.Base(path)}, fetchedNames(row, cpuid)...) {
		err := l.add(filepath.Join(l.Dir, name), row.pmu())
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fetchedNames returns the names of the file of a row that pmu-tools fetched for this CPU, with and without the stepping.
func fetchedNames(row Row, cpuid string) []string {
	kind := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return -1
	}, row.Type)
	if row.Role != "" {
		kind += "-" + row.Role
	}
	names := []string{cpuid + "-" + kind + ".json"}
	if parts := strings.Split(cpuid, "-"); len(parts) > 3 {
		names = append(names, strings.Join(parts[:3], "-")+"-"+kind+".json")
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.ContainsRune(name, '/') })
}

// pmu returns the PMU of the cores that a row of perfmon's is for. It is empty if the CPU has one kind of cores.
func (r Row) pmu() string {
	if r.Role == "" {
		return ""
	}
	role, _, _ := strings.Cut(strings.ToLower(r.Role), "_") // LowPower_Atom
	return "cpu_" + role
}

// loadUnmapped reads the files of a directory without a map: those whose names begin with the name of this CPU, and all if no name begins
// with that of a CPU.
func (l *loading) loadUnmapped(names []string, cpuid string) error {
	if len(names) == 0 {
		l.found = false
		if !l.Named {
			return nil
		}
		l.warn("%s has neither event files (*.json) nor %s: name the directory of a CPU model, or the one with %s", l.Dir, mapName, mapName)
		return nil
	}
	if !slices.ContainsFunc(names, func(name string) bool { return cpuOf(name) != "" }) {
		return l.loadFiles(l.Dir, names)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !vendor.Fits(cpuid, cpuOf(name)) })
	return l.loadFiles(l.Dir, names)
}

// cpuOf returns the CPU with which the name of a file begins, or "". pmu-tools names files as GenuineIntel-6-8F-core.json.
func cpuOf(name string) string {
	parts := strings.Split(name, "-")
	isHex := func(part string) bool { return part != "" && strings.Trim(part, "0123456789ABCDEF") == "" }
	if len(parts) < 4 || !isHex(parts[1]) || !isHex(parts[2]) {
		return ""
	}
	n := 3
	if len(parts) > 4 && isHex(parts[3]) {
		n = 4
	}
	return strings.Join(parts[:n], "-")
}

func (l *loading) loadFiles(dir string, names []string) error {
	for _, name := range names {
		_, role, _ := strings.Cut(strings.TrimSuffix(name, ".json"), "-hybridcore-")
		if err := l.add(filepath.Join(dir, name), Row{Role: role}.pmu()); err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to nothing
			return err
		}
	}
	return nil
}

// add adds what a file describes. Entries without a unit are of the PMU, if any. It ignores entries that cannot be used, with a warning.
func (l *loading) add(path, pmu string) error {
	entries, err := l.decode(path)
	if err != nil {
		return err
	}
	var first error
	wrong := 0
	for _, e := range entries {
		if e["Unit"] == "" && pmu != "" {
			e["Unit"] = pmu
		}
		if err := l.model.Add(e, l.std); err != nil {
			first = cmp.Or(first, err)
			wrong++
		}
	}
	if wrong > 0 {
		l.warn("%d of %d entries of %s are ignored; the first: %v", wrong, len(entries), path, first)
	}
	return nil
}

// decode returns the entries of a file, none if it was read under another name.
func (l *loading) decode(path string) ([]Entry, error) {
	data, err := l.read(path, maxFile)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, nil
	}
	entries, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.entries += len(entries); l.entries > maxEntries {
		return nil, fmt.Errorf("%s: the files have more than %d entries together", path, maxEntries)
	}
	return entries, nil
}

// read returns the bytes of a file, nil if it was read under another name.
func (l *loading) read(path string, limit int64) ([]byte, error) {
	f, err := userfile.Read(path, limit)
	if !l.Named && f.IsForeign() {
		return nil, errForeign
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(l.files, func(read fs.FileInfo) bool { return os.SameFile(read, f.Info) }) {
		return nil, nil
	}
	l.files = append(l.files, f.Info)
	if l.bytes += len(f.Data); l.bytes > maxBytes {
		return nil, fmt.Errorf("%s: the files have more than %d bytes together", path, maxBytes)
	}
	return f.Data, nil
}
