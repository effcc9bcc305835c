package replay

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/object"
)

// owner is a process that had something mapped. While it lives and the mapping remains, bperf can read its files as the process sees them.
type owner struct {
	pid   int32
	start uint64 // address of the mapping
	path  string // path of the file; empty for memory without one
}

// liveFile is how to reach a file that a living process has mapped.
type liveFile struct {
	root   string // root directory of the process, as this process sees it
	mapped string // path that object.MappedFile returns
}

// is reports whether the mapping is the owner's. Its path can begin with directories above the process's root.
func (o owner) is(m *codeMapping) bool {
	if o.start < m.start || o.start >= m.end {
		return false
	}
	if o.path == "" {
		return m.anonymous
	}
	return strings.HasSuffix(m.path, withoutDeleted(o.path))
}

// codeMapping is an executable mapping of a living process.
type codeMapping struct {
	start, end uint64
	path       string // without " (deleted)"; empty for memory without a file
	anonymous  bool
}

// Bounds of the cache: the number of processes and, for each of them, the number of mappings and the bytes of their paths. Large programs
// have some hundred mappings.
const (
	maxLive     = 16
	maxMappings = 16 << 10
	maxPaths    = 1 << 20
)

// parseMaps returns the executable mappings in a /proc/PID/maps, by address. It leaves out those beyond the bounds.
func parseMaps(maps io.Reader) (code []codeMapping) {
	left := maxPaths
	for m := range procfs.Mappings(maps, nil) {
		if !m.Executable() {
			continue
		}
		path := ""
		if at := bytes.IndexByte(m.Path, '/'); at >= 0 { // [anon:NAME] can contain one, too
			path = withoutDeleted(string(m.Path[at:]))
		}
		if left -= len(path); left < 0 || len(code) == maxMappings {
			break
		}
		code = append(code, codeMapping{start: m.Start, end: m.End, path: path, anonymous: m.Inode == 0})
	}
	return code
}

// liveMaps caches the mappings of living processes. Goroutines may share it.
type liveMaps struct {
	mu   sync.Mutex
	kept map[int32]liveMap
}

// liveMap is the mappings of one process.
type liveMap struct {
	code  []codeMapping // nil if the process has ended
	until time.Time     // when to read them again
}

// shareOfReading limits the time spent on reading the mappings of a process: they are kept for shareOfReading times as long as reading
// took. A process can have a million mappings, and each of its files needs them. For most processes, reading takes less than a millisecond.
const shareOfReading = 10

// of returns the executable mappings of a process, or nil if it has ended.
func (l *liveMaps) of(pid int32) []codeMapping {
	l.mu.Lock()
	m, known := l.kept[pid]
	l.mu.Unlock()
	began := time.Now()
	if known && began.Before(m.until) {
		return m.code
	}
	if f, err := os.Open(filepath.Join("/proc", strconv.Itoa(int(pid)), "maps")); err == nil {
		m.code = parseMaps(f)
		_ = f.Close() // it is only read
	} else {
		m.code = nil
	}
	now := time.Now()
	m.until = now.Add(shareOfReading * now.Sub(began))
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.kept, func(_ int32, old liveMap) bool { return now.After(old.until) })
	if l.kept == nil {
		l.kept = map[int32]liveMap{}
	}
	if len(l.kept) < maxLive {
		l.kept[pid] = m
	}
	return m.code
}

// find returns the file of the owner's mapping. It returns false if the process is gone, or if another process has its ID by now, perhaps
// because the recording is of another machine: such a process does not have the same mapping.
func (l *liveMaps) find(o owner) (liveFile, bool) {
	code := l.of(o.pid)
	i := sort.Search(len(code), func(i int) bool { return code[i].end > o.start })
	if i == len(code) || !o.is(&code[i]) {
		return liveFile{}, false
	}
	return liveFile{
		root:   filepath.Join("/proc", strconv.Itoa(int(o.pid)), "root"),
		mapped: object.MappedFile(o.pid, code[i].start, code[i].end),
	}, true
}

// withoutDeleted removes the suffix that the kernel appends to the path of a deleted file.
func withoutDeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }

// status is the part of /proc/PID/status that bperf uses.
type status struct {
	innermostPID int32 // ID in its own PID namespace; 0 if unknown
	user         int   // effective user ID; 0 if unknown
}

// status reads the status of the owner. NStgid: Linux 4.1.
func (o owner) status() (s status) {
	text, err := procfs.ReadStatus(os.DirFS("/proc"), strconv.Itoa(int(o.pid)))
	if err != nil {
		return status{}
	}
	if users := strings.Fields(text.Field("Uid")); len(users) > 1 {
		s.user, _ = strconv.Atoi(users[1]) // 0 if it is not a number
	}
	if ids := strings.Fields(text.Field("NStgid")); len(ids) > 0 {
		id, _ := strconv.ParseInt(ids[len(ids)-1], 10, 32)
		s.innermostPID = int32(id)
	}
	return s
}
