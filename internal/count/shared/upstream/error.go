package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/kernel"
)

// UnknownError is the error if a path has something other than an attr map, or an attr map that bperf cannot use.
type UnknownError struct {
	Path string
	What string // "is …", and what to do
}

func (e *UnknownError) Error() string { return e.Path + " " + e.What }

// checkPath checks a path before the kernel opens a BPF object there, because the kernel's error would not show what is
// wrong.
func checkPath(path string) error {
	err := checkFileSystem(path)
	if errors.Is(err, syscall.ENOENT) {
		if err := checkFileSystem(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("there is no attr map %s (%w): %w", path, fs.ErrNotExist, err)
		}
		return fmt.Errorf("there is no attr map %s: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("open the attr map %s: %w", path, err)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return &UnknownError{path, "is not an attr map: it is a directory"}
	}
	return nil
}

// checkFileSystem returns an error unless path exists and is in a bpffs.
func checkFileSystem(path string) error {
	is, err := kernel.IsBPFFS(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("look at %s: %w. Attr maps are root's: run bperf as root", path, err)
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	case !is:
		return fmt.Errorf("%s is not in a BPF file system (bpffs). To mount one: mount -t bpf bpf /sys/fs/bpf", path)
	}
	return nil
}

// openError explains an error of opening a pin in a bpffs as a map.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("open the attr map %s: %w. It can be read and written by its owner alone, who is usually root: "+
			"run bperf as root", path, errnoOf(err))
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("open the attr map %s: %w. %s", path, errnoOf(err), kernel.Remedy(needsAdmin))
	case errnoOf(err) == err: // no errno: the library has opened it, and it is no map
		return &UnknownError{path, "is not an attr map: what is pinned there is another BPF object"}
	}
	return fmt.Errorf("open the attr map %s: %w", path, errnoOf(err))
}

// createError explains an error of creating or pinning a map.
func createError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("create the attr map %s: %w. Only the owner of %s can make files in it, who is usually root: run bperf as root",
			path, errnoOf(err), filepath.Dir(path))
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("create the attr map %s: %w. %s", path, errnoOf(err), kernel.Remedy(needsAdmin))
	}
	return fmt.Errorf("create the attr map %s: %w", path, errnoOf(err))
}

// needsAdmin is the remedy for an EPERM of bpf(2).
const needsAdmin = "Sharing counters with perf needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, as only IDs are in the map: run bperf as root"

// errnoOf returns the errno in an error of the library, without the library's guesses. It returns other errors unchanged.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// checkLayout returns the key size of an attr map, or an error if the map does not have a known layout.
func checkLayout(path string, m *ebpf.Map) (keySize int, err error) {
	if m.Type() != ebpf.Hash || m.ValueSize() != 8 {
		return 0, &UnknownError{path, fmt.Sprintf("is not an attr map: it is a %s with values of %d bytes, not a %s with values of 8 bytes",
			m.Type(), m.ValueSize(), ebpf.Hash)}
	}
	if !slices.Contains(keySizes, int(m.KeySize())) {
		known := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(keySizes)), ", "), "[]")
		return 0, &UnknownError{path, fmt.Sprintf("is an attr map of a perf that bperf does not know: its keys have %d bytes (known: %s). "+
			"If no such perf is running, remove the file; otherwise use another path", m.KeySize(), known)}
	}
	return int(m.KeySize()), nil
}
