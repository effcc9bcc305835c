package object

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// openIn is the only way to open a file that another user may have put there: it never waits, and opens nothing but regular files.
// It opens a file by its path in the file system below root, where links lead as they do for processes
// with that root (openat2(2) with RESOLVE_IN_ROOT, Linux 5.6). An empty root is this process's own.
func openIn(root, path string) (*os.File, error) {
	dir, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer closeRoot(dir)
	return openAt(dir, root, path)
}

// openRoot opens the directory that openAt starts from.
func openRoot(root string) (int, error) {
	if root == "" || root == "/" {
		return unix.AT_FDCWD, nil
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return dir, nil
}

func closeRoot(dir int) {
	if dir != unix.AT_FDCWD {
		_ = unix.Close(dir)
	}
}

func openAt(dir int, root, path string) (*os.File, error) {
	// Files of others may be pipes by the time they are opened: that must not wait for a writer.
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_IN_ROOT}
	var fd int
	var err error
	if dir == unix.AT_FDCWD {
		fd, err = unix.Open(path, int(how.Flags), 0)
	} else {
		fd, err = unix.Openat2(dir, path, &how)
	}
	path = filepath.Join(root, path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is no regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile reads a regular file of at most limit bytes by its path in the file system below root, as Search.Root has it. If owners are
// given, the file must belong to one of these users.
func ReadFile(root, path string, limit int64, owners ...int) ([]byte, error) {
	f, err := openIn(root, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	return readFile(f, limit, owners...)
}

func readFile(f *os.File, limit int64, owners ...int) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); len(owners) > 0 && !slices.Contains(owners, owner) {
		return nil, fmt.Errorf("read %s: it belongs to user %d, not to root or to the user of the process", f.Name(), owner)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("read %s: it has %d bytes, and at most %d are read", f.Name(), info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes, which is the most that is read", f.Name(), limit)
	}
	return data, nil
}

// BuildID reads the build ID of the file at a path, or of this kernel's [vdso]; nil if it has none.
func (s Search) BuildID(path string) ([]byte, error) {
	f, err := s.openPath(path)
	if err != nil {
		return nil, err
	}
	return f.image.buildID(), f.Close()
}

// Identity returns the device and inode of a file, as records of its mappings have them, and its size.
func Identity(path string) (major, minor uint32, inode, size uint64, err error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, 0, 0, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino, uint64(s.Size), nil
}

// fsIocGetVersion is FS_IOC_GETVERSION of include/uapi/linux/fs.h, on 64 bits.
const fsIocGetVersion = 0x80087601

// Replaced reports whether the path leads to another file than the one that a record of a mapping describes, as far as that is known: where the device
// differs it is not, as file systems like btrfs and overlayfs have different ones for records and stat(2). A generation of 0 is unknown. It is needed
// because file systems give the inode of a deleted file to the next one.
func Replaced(path string, major, minor uint32, inode, generation uint64) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // what is no file by now may wait for a writer
	if err != nil {
		return false
	}
	defer f.Close()
	nowMajor, nowMinor, now, _, err := Identity(path)
	if err != nil || inode == 0 || nowMajor != major || nowMinor != minor {
		return false
	}
	if now != inode {
		return true
	}
	version, err := unix.IoctlGetUint32(int(f.Fd()), fsIocGetVersion)
	return err == nil && generation != 0 && uint64(version) != generation
}

// mapImage maps a file and reads its headers.
func mapImage(f *os.File) (*image, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("read %s: it is empty", f.Name())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	i, err := readImage(data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", f.Name(), err), unix.Munmap(data))
	}
	i.mapped = data
	return i, nil
}

// readImage reads the headers of a file, or of what is packed in it.
func readImage(data []byte) (*image, error) {
	err := guard(func() error {
		unpacked, ok, err := unpack(data)
		if err != nil {
			return fmt.Errorf("decompress it: %w", err)
		}
		if ok {
			data = unpacked
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newImage(data)
}

// openFile opens an ELF file without looking for others that belong to it.
func openFile(root, path string) (*File, error) {
	f, err := openIn(root, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	i, err := mapImage(f)
	if err != nil {
		return nil, err
	}
	return &File{path: path, image: i, owner: int(info.Sys().(*syscall.Stat_t).Uid)}, nil
}
