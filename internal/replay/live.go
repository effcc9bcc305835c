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

// owner is a process that had something mapped. While it lives, and it is still mapped there, its files can be had as it sees them.
type owner struct {
	pid   int32
	start uint64 // of the mapping
	path  string // of the file; empty for memory without one
}

// place is where a living process has something mapped.
type place struct {
	root   string // the process's root directory as this process sees it
	mapped string // object.MappedFile
}

// is reports whether the mapping is the one that the owner had. The path there can begin with what is above the process's root.
func (o owner) is(m *codeMapping) bool {
	if o.start < m.start || o.start >= m.end {
		return false
	}
	if o.path == "" {
		return m.anonymous
	}
	return strings.HasSuffix(m.path, withoutDeleted(o.path))
}

// codeMapping is executable memory of a living process.
type codeMapping struct {
	start, end uint64
	path       string // without " (deleted)"; empty for memory without a file
	anonymous  bool
}

// Bounds of what is kept of living processes: of each, the number of mappings and the bytes of their paths. Large programs have some hundred.
const (
	maxLive     = 16
	maxMappings = 16 << 10
	maxPaths    = 1 << 20
)

// parseMaps reads the executable memory in a /proc/PID/maps, by address. What is over the bounds is left out.
func parseMaps(maps io.Reader) (code []codeMapping) {
	left := maxPaths
	for m := range procfs.Mappings(maps, nil) {
		if !m.Executable() {
			continue
		}
		path := ""
		if at := bytes.IndexByte(m.Path, '/'); at >= 0 { // [anon:NAME] can have one, too
			path = withoutDeleted(string(m.Path[at:]))
		}
		if left -= len(path); left < 0 || len(code) == maxMappings {
			break
		}
		code = append(code, codeMapping{start: m.Start, end: m.End, path: path, anonymous: m.Inode == 0})
	}
	return code
}

// liveMaps knows what living processes have mapped. Goroutines may share it.
type liveMaps struct {
	mu   sync.Mutex
	kept map[int32]liveMap
}

// liveMap is what one has mapped.
type liveMap struct {
	code  []codeMapping // nil if the process has ended
	until time.Time     // it is read again then
}

// shareOfReading bounds the time that reading the mappings of a process takes: they are kept for shareOfReading times as long as that took. A process can
// have a million mappings, and they are needed for each of its files; those of most processes are read in less than a millisecond.
const shareOfReading = 10

// of returns the executable memory of a process.
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

// find returns false if the process is gone, or if another process has its ID by now, perhaps because the recording is of another machine: such
// a process does not have the same mapping.
func (l *liveMaps) find(o owner) (place, bool) {
	code := l.of(o.pid)
	i := sort.Search(len(code), func(i int) bool { return code[i].end > o.start })
	if i == len(code) || !o.is(&code[i]) {
		return place{}, false
	}
	return place{
		root:   filepath.Join("/proc", strconv.Itoa(int(o.pid)), "root"),
		mapped: object.MappedFile(o.pid, code[i].start, code[i].end),
	}, true
}

// withoutDeleted removes what the kernel appends to the path of a file that was deleted.
func withoutDeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }

// status is what /proc/PID/status says of a process.
type status struct {
	innermostPID int32 // in its own PID namespace; 0 if it cannot be known
	user         int   // effective; 0 if it cannot be known
}

// status reads that of the process. NStgid: Linux 4.1.
func (o owner) status() (s status) {
	text, err := procfs.ReadStatus(os.DirFS("/proc"), strconv.Itoa(int(o.pid)))
	if err != nil {
		return status{}
	}
	if users := strings.Fields(text.Field("Uid")); len(users) > 1 {
		s.user, _ = strconv.Atoi(users[1]) // 0 if it is no number
	}
	if ids := strings.Fields(text.Field("NStgid")); len(ids) > 0 {
		id, _ := strconv.ParseInt(ids[len(ids)-1], 10, 32)
		s.innermostPID = int32(id)
	}
	return s
}
