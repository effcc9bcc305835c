package container

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/printable"
)

const (
	mostLogs    = 8192 // entries of a directory of logs that are read
	mostName    = 253  // bytes of a name in Kubernetes
	coarseClock = 2 * time.Second
)

// pod has the names of a pod.
type pod struct{ namespace, name string }

// logs has the names that the kubelet's directories of logs have.
type logs struct {
	pods       directory
	containers directory

	byUID map[string]pod      // of pods
	byID  map[string]inItsPod // of containers
}

// inItsPod has the names of a container.
type inItsPod struct {
	pod
	container string
}

// refresh reads the directories if they have changed. A machine without Kubernetes does not have them.
func (l *logs) refresh(now time.Time) error {
	names, changed, err := l.pods.read(now)
	if changed {
		l.byUID = make(map[string]pod, len(names))
		for _, name := range names {
			if uid, p, ok := parsePodLog(name); ok {
				l.byUID[uid] = p
			}
		}
	}
	names, changed, err2 := l.containers.read(now)
	if changed {
		l.byID = make(map[string]inItsPod, len(names))
		for _, name := range names {
			if id, c, ok := parseContainerLog(name); ok {
				l.byID[id] = c
			}
		}
	}
	return errors.Join(err, err2)
}

// complete adds the names of a container that are known. Only containers of the kubelet have any, which have the UID of a pod.
func (l *logs) complete(n *Name) {
	if n.PodUID == "" {
		return
	}
	if p, ok := l.byUID[n.PodUID]; ok {
		n.Namespace, n.Pod = p.namespace, p.name
	}
	c, ok := l.byID[n.ID]
	if !ok || n.Pod != "" && (c.name != n.Pod || c.namespace != n.Namespace) {
		return
	}
	n.Namespace, n.Pod, n.Container = c.namespace, c.name, c.container
}

// parsePodLog parses the name of a pod's directory of logs, NAMESPACE_POD_UID.
func parsePodLog(name string) (uid string, p pod, ok bool) {
	f := strings.Split(name, "_")
	if len(f) != 3 || f[0] == "" || f[1] == "" || len(f[2]) > mostName {
		return "", pod{}, false
	}
	return f[2], pod{printable.Short(f[0], mostName), printable.Short(f[1], mostName)}, true
}

// parseContainerLog parses the name of a container's log, POD_NAMESPACE_CONTAINER-ID.log.
func parseContainerLog(name string) (id string, c inItsPod, ok bool) {
	f := strings.Split(strings.TrimSuffix(name, ".log"), "_")
	if len(f) != 3 || f[0] == "" || f[1] == "" {
		return "", inItsPod{}, false
	}
	at := strings.LastIndexByte(f[2], '-')
	if at <= 0 || directoryOf().FindString(f[2][at+1:]) == "" {
		return "", inItsPod{}, false
	}
	return f[2][at+1:], inItsPod{pod{printable.Short(f[1], mostName), printable.Short(f[0], mostName)}, printable.Short(f[2][:at], mostName)}, true
}

// directory is a directory whose entries are read again when it has changed.
type directory struct {
	path     string
	last     time.Time // of the last reading
	modified time.Time // then
}

// read returns the names of the entries, at most mostLogs, if they may have changed since the last call.
func (d *directory) read(now time.Time) (names []string, changed bool, err error) {
	info, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		changed = !d.modified.IsZero()
		d.modified = time.Time{}
		return nil, changed, nil
	}
	if err != nil {
		return nil, false, err
	}
	// File systems have coarse clocks: an entry may be added after the reading without another modification time.
	if info.ModTime().Equal(d.modified) && d.last.Sub(d.modified) > coarseClock {
		return nil, false, nil
	}
	d.modified, d.last = info.ModTime(), now
	f, err := openDirectory(d.path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	names, err = f.Readdirnames(mostLogs)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err == nil, err
}

// openDirectory opens a directory, and nothing else: it does not wait for the writer of a FIFO.
func openDirectory(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// subdirectories returns the names of the directories in a directory, sorted, at most so many.
func subdirectories(path string, most int) (names []string, err error) {
	f, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for len(names) < most {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if e.IsDir() && len(names) < most {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}
