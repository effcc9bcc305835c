package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// buildIDs collects the build IDs of files as they are mapped, in the background. It does not wait for the end of the recording, because files
// in a process's own mounts can only be opened while the process exists.
type buildIDs struct {
	proc   string
	search object.Search
	seen   map[string]bool // names; only add uses it
	todo   chan mapped
	open   sync.WaitGroup // waits until all of todo are done

	found []perfdata.HeaderBuildID // may be read after open.Wait
}

// mapped is a file that a process has mapped.
type mapped struct {
	name string
	pid  int32
}

// mostFiles limits the number of files whose build IDs are kept.
const mostFiles = 1 << 14

func newBuildIDs(proc string, a *allowance.Allowance) *buildIDs {
	b := &buildIDs{proc: proc, search: object.Search{Allowance: a}, seen: make(map[string]bool), todo: make(chan mapped, mostFiles)}
	go func() {
		for m := range b.todo {
			if id, misc, err := b.read(m); err == nil && len(id) > 0 {
				b.found = append(b.found, perfdata.HeaderBuildID{Misc: misc, PID: -1, BuildID: id, Filename: m.name})
			}
			b.open.Done()
		}
	}()
	return b
}

// add collects the build ID of a file that was mapped, once per name.
func (b *buildIDs) add(name []byte, pid int32) {
	if b.seen[string(name)] || len(b.seen) == mostFiles {
		return
	}
	m := mapped{string(name), pid}
	b.seen[m.name] = true
	if strings.HasPrefix(m.name, snapshot.KernelName) {
		m.name = snapshot.KernelName // without the symbol
	}
	if strings.HasPrefix(m.name, "/") && !strings.HasPrefix(m.name, "//") || m.name == snapshot.KernelName || m.name == "[vdso]" || pid == -1 {
		b.open.Add(1)
		b.todo <- m // does not block: it has room for mostFiles
	}
}

// all returns the build IDs sorted by file name, after the last one is read. It must not run concurrently with add.
func (b *buildIDs) all() perfdata.BuildIDs {
	b.open.Wait()
	slices.SortFunc(b.found, func(a, b perfdata.HeaderBuildID) int { return cmp.Compare(a.Filename, b.Filename) })
	return slices.Clone(b.found)
}

// close stops collecting. b may be nil.
func (b *buildIDs) close() {
	if b != nil {
		close(b.todo)
	}
}

func (b *buildIDs) read(m mapped) (id []byte, misc perfdata.Misc, err error) {
	switch {
	case m.name == snapshot.KernelName:
		id, err = snapshot.KernelBuildID()
		return recorded(id), perfdata.MiscKernel, err
	case m.pid == -1:
		id, err = snapshot.ModuleBuildID(m.name)
		return recorded(id), perfdata.MiscKernel, err
	case m.name == "[vdso]":
		id, err = userBuildID(b.search, m.name)
		return id, perfdata.MiscUser, err
	}
	inProcess := b.search
	inProcess.Root = fmt.Sprintf("%s/%d/root", b.proc, m.pid)
	id, err = userBuildID(inProcess, m.name)
	if err != nil { // the process has ended, or permission is missing
		id, err = userBuildID(b.search, m.name)
	}
	return id, perfdata.MiscUser, err
}

func userBuildID(search object.Search, path string) ([]byte, error) {
	id, err := search.BuildID(path)
	return recorded(id), err
}

// recorded returns the first 20 bytes of a build ID, which perf.data has room for.
func recorded(buildID []byte) []byte { return buildID[:min(len(buildID), 20)] }
