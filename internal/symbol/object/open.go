package object

import (
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

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/allowance"
)

// openIn opens a regular file and asks no FUSE server. It is the only way to open a file that another user may control. The path is
// relative to root, where links lead to the same files as for processes with that root (openat2(2) with RESOLVE_IN_ROOT, Linux 5.6). An
// empty root is this process's root; only there may path be one of MappedFile.
func openIn(root, path string) (*os.File, error) {
	w, err := walkFrom(root)
	if err != nil {
		return nil, err
	}
	defer w.close()
	return w.open(path)
}

// withFile opens a file and calls do with it, within the time of the allowance. drop is that of allowance.Read.
func withFile[T any](s Search, path string, do func(*os.File) (T, error), drop func(T)) (T, error) {
	return allowance.Read(s.Allowance, "read "+filepath.Join(s.Root, path), func() (T, error) {
		f, err := openIn(s.Root, path)
		if err != nil {
			var none T
			return none, err
		}
		defer func() { _ = f.Close() }() // it is only read
		return do(f)
	}, drop)
}

// walker opens files below a root.
type walker struct {
	root    string
	dir     int    // the opened root; AT_FDCWD for that of this process
	process string // the process whose mounts these are, as in procfs.Mounts
	base    string // prefix of paths in fuse
	trusted bool   // the root's mount is this system's, or that of a directory that the user named
	fuse    *fuseMounts
}

func walkFrom(root string) (*walker, error) {
	w := &walker{root: root, dir: unix.AT_FDCWD, process: "self", trusted: true}
	var err error
	if process, of := strings.CutSuffix(root, "/root"); of && strings.HasPrefix(process, "/proc/") {
		w.process = strings.TrimPrefix(process, "/proc/")
	} else {
		if w.base, err = filepath.Abs(cmp.Or(root, "/")); err != nil {
			return nil, err
		}
		w.base = strings.TrimSuffix(w.base, "/")
	}
	if root == "" || root == "/" {
		return w, nil
	}
	w.dir, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	if w.process != "self" {
		own, ownErr := mountID(unix.AT_FDCWD, "/")
		its, itsErr := mountID(w.dir, "")
		w.trusted = errors.Join(ownErr, itsErr) == nil && own == its
	}
	return w, nil
}

// mountID returns the ID of a file's mount (STATX_MNT_ID, Linux 5.8), without asking a server.
func mountID(dir int, path string) (uint64, error) {
	var s unix.Statx_t
	err := unix.Statx(dir, path, unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &s)
	if err == nil && s.Mask&unix.STATX_MNT_ID == 0 {
		err = unix.ENOSYS
	}
	return s.Mnt_id, err
}

// isFuse reports whether a path without symbolic links leads to a FUSE mount that must not be asked.
func (w *walker) isFuse(path string) (bool, error) {
	if w.fuse == nil {
		fuse, err := readFuseMounts(w.process)
		if err != nil && w.process != "self" { // without /proc, there are no processes of others either
			return false, err
		}
		if w.process == "self" { // the server of the user's directory, or of this system's root, is trusted
			fuse.dirs = slices.DeleteFunc(fuse.dirs, func(dir string) bool { return within(dir, cmp.Or(w.base, "/")) })
		}
		w.fuse = &fuse
	}
	return w.fuse.have(w.base + path), nil
}

func (w *walker) close() {
	if w.dir != unix.AT_FDCWD {
		_ = unix.Close(w.dir)
	}
}

// open opens a regular file for reading.
func (w *walker) open(path string) (*os.File, error) {
	// A file of another user can turn into a pipe before it is opened. Opening it must not wait for a writer.
	fd, err := w.find(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY)
	path = filepath.Join(w.root, path)
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

// find opens the file at a path. It follows symbolic links itself, because each may lead to a FUSE mount.
func (w *walker) find(path string, flags uint64) (int, error) {
	if w.dir == unix.AT_FDCWD {
		if mappedFile().MatchString(path) {
			return w.findMapped(path, flags)
		}
		if !filepath.IsAbs(path) {
			here, err := os.Getwd()
			if err != nil {
				return -1, err
			}
			path = here + "/" + path
		}
	}
	const mostSteps = 100 // the kernel follows 40 links (path_resolution(7))
	for range mostSteps {
		path = plain(path)
		// The target of ".." is known only when there is no link before it.
		head, tail, goesUp := strings.Cut(path+"/", "/../")
		if !goesUp {
			head = path
		}
		how := flags
		if goesUp {
			how = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		}
		fd, err := w.openChecked(cmp.Or(head, "/"), how)
		switch {
		case err == unix.ELOOP:
			link, err := w.followFirst(head)
			if err != nil {
				return -1, err
			}
			path = link + strings.TrimPrefix(path, head)
		case err != nil || !goesUp:
			return fd, err
		default:
			_ = unix.Close(fd)
			path = filepath.Dir(head) + "/" + tail
		}
	}
	return -1, unix.ELOOP
}

// plain returns an absolute path without empty names and ".".
func plain(path string) string {
	names := slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
	return "/" + strings.Join(names, "/")
}

// openChecked is like openPlain, but fails if it would ask a FUSE server. Most paths stay on the mount of the root. It reads the mounts
// only for other paths, because that takes longer than opening a file.
func (w *walker) openChecked(path string, flags uint64) (int, error) {
	if w.trusted {
		if fd, err := w.openPlain(path, flags, unix.RESOLVE_NO_XDEV); err != unix.EXDEV && err != unix.ENOSYS {
			return fd, err
		}
	}
	fuse, err := w.isFuse(path)
	if err != nil {
		return -1, err
	}
	if fuse {
		return -1, errFuse
	}
	return w.openPlain(path, flags, 0)
}

// openPlain opens a path without symbolic links. It returns ELOOP if there is one. restrictions are additional ones of openat2(2).
func (w *walker) openPlain(path string, flags, restrictions uint64) (int, error) {
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS | restrictions}
	if w.dir != unix.AT_FDCWD {
		how.Resolve |= unix.RESOLVE_IN_ROOT
	}
	fd, err := unix.Openat2(w.dir, path, &how)
	if err == unix.ENOSYS && w.dir == unix.AT_FDCWD && restrictions == 0 { // before Linux 5.6
		return unix.Open(path, int(flags), 0)
	}
	return fd, err
}

// followFirst replaces the first symbolic link in a plain path by its target.
func (w *walker) followFirst(path string) (string, error) {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' {
			continue
		}
		fd, err := w.openPlain(path[:end], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		target := make([]byte, unix.PathMax)
		n, notLink := unix.Readlinkat(fd, "", target)
		var link unix.Stat_t
		err = errors.Join(unix.Fstat(fd, &link), unix.Close(fd))
		if err != nil {
			return "", err
		}
		if notLink != nil {
			continue
		}
		if err := w.mayFollow(filepath.Dir(path[:end]), &link); err != nil {
			return "", err
		}
		to := string(target[:n])
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path[:end]) + "/" + to
		}
		return to + path[end:], nil
	}
	return "", unix.ELOOP // the link is gone
}

// mayFollow refuses links that other users created in directories like /tmp, as the kernel does
// (https://docs.kernel.org/admin-guide/sysctl/fs.html#protected-symlinks).
func (w *walker) mayFollow(parent string, link *unix.Stat_t) error {
	fd, err := w.openPlain(parent, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var dir unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &dir), unix.Close(fd)); err != nil {
		return err
	}
	const shared = unix.S_ISVTX | unix.S_IWOTH
	if dir.Mode&shared == shared && link.Uid != dir.Uid && int(link.Uid) != os.Geteuid() {
		return unix.EACCES
	}
	return nil
}

// findMapped is find for a path of MappedFile. That path is a link of the kernel, which leads to the file itself and not to a name.
func (w *walker) findMapped(path string, flags uint64) (int, error) {
	link, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(link) }()
	var s unix.Statx_t // without AT_STATX_DONT_SYNC, statx would ask the server
	if err := unix.Statx(link, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &s); err != nil {
		return -1, err
	}
	if !onRoot(&s) { // reading the mounts takes longer than opening a file
		fuse, err := readFuseMounts(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err != nil {
			return -1, err
		}
		if fuse.devices[unix.Mkdev(s.Dev_major, s.Dev_minor)] {
			return -1, errFuse
		}
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", link), int(flags), 0)
}

// onRoot reports whether a file is on the file system of this process's root, whose server is trusted if it has one.
func onRoot(s *unix.Statx_t) bool {
	var root unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, "/", unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &root)
	return err == nil && s.Dev_major == root.Dev_major && s.Dev_minor == root.Dev_minor
}

// ReadFile reads a regular file of at most limit bytes. If owners are given, one of them must own the file.
func (s Search) ReadFile(path string, limit int64, owners ...int) ([]byte, error) {
	return withFile(s, path, func(f *os.File) ([]byte, error) { return readFile(f, limit, owners...) }, nil)
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

// Stat returns the information about a file, like os.Stat.
func (s Search) Stat(path string) (fs.FileInfo, error) {
	return withFile(s, path, (*os.File).Stat, nil)
}

// Identity returns the device and the inode of a file, as in records of its mappings, and its size in bytes.
func Identity(path string) (major, minor uint32, inode, size uint64, err error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, 0, 0, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino, uint64(s.Size), nil
}

// fsIocGetVersion is FS_IOC_GETVERSION of include/uapi/linux/fs.h, on 64 bits.
const fsIocGetVersion = 0x80087601

// Replaced reports whether a path is known to lead to another file than the one in a record of a mapping. Different devices are no
// evidence: on file systems such as btrfs and overlayfs, records and stat(2) have different devices. The generation matters because file
// systems reuse inodes of deleted files; 0 is an unknown generation.
func (s Search) Replaced(path string, major, minor uint32, inode, generation uint64) bool {
	replaced, err := withFile(s, path, func(f *os.File) (bool, error) {
		var now unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &now); err != nil || inode == 0 || unix.Major(now.Dev) != major || unix.Minor(now.Dev) != minor {
			return false, err
		}
		version, err := unix.IoctlGetUint32(int(f.Fd()), fsIocGetVersion)
		return now.Ino != inode || err == nil && generation != 0 && uint64(version) != generation, nil
	}, nil)
	return err == nil && replaced
}

// contents is a file in memory.
type contents struct {
	data   []byte
	copied bool // copied, not mapped
	owner  int  // user ID
}

func (c contents) close() error { return unix.Munmap(c.data) }

// readContents maps a file. It copies the file instead if a page fault could wait for the file system of another user: nothing interrupts
// such a wait, and Go's garbage collector would wait, too.
func readContents(f *os.File) (contents, error) {
	info, err := f.Stat()
	if err != nil {
		return contents{}, err
	}
	c := contents{owner: int(info.Sys().(*syscall.Stat_t).Uid)}
	if info.Size() == 0 {
		return contents{}, fmt.Errorf("read %s: it is empty", f.Name())
	}
	c.copied, err = mustCopy(f)
	if err != nil {
		return contents{}, err
	}
	fd, prot, flags := int(f.Fd()), unix.PROT_READ, unix.MAP_PRIVATE
	if c.copied {
		if info.Size() > maxCopied {
			return contents{}, fmt.Errorf("read %s: it has %d bytes, and of a file on a file system of its type at most %d are read", f.Name(), info.Size(), maxCopied)
		}
		fd, prot, flags = -1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS
	}
	if c.data, err = unix.Mmap(fd, 0, int(info.Size()), prot, flags); err != nil {
		return contents{}, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	if c.copied {
		if _, err := io.ReadFull(f, c.data); err != nil {
			return contents{}, errors.Join(fmt.Errorf("read %s: %w", f.Name(), err), c.close())
		}
	}
	return c, nil
}

// local lists the file systems that may be mapped: their pages come from this machine's memory or disks. The numbers that are not in
// include/uapi/linux/magic.h are in fs/bcachefs and in OpenZFS's zfs_vfsops.h.
var local = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.HUGETLBFS_MAGIC, unix.ISOFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC,
	unix.REISERFS_SUPER_MAGIC, bcachefs, zfs}

const (
	bcachefs = 0xca451a4e
	zfs      = 0x2fc12fc1
)

// mustCopy reports whether a file is on a file system that might not answer.
func mustCopy(f *os.File) (bool, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return false, fmt.Errorf("read %s: fstatfs: %w", f.Name(), err)
	}
	return !slices.Contains(local, int64(s.Type)), nil
}

// newFile returns the File of some contents, and takes ownership of them. It reads the headers.
func newFile(path string, c contents) (*File, error) {
	i, err := readImage(c.data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), c.close())
	}
	i.mapped, i.copied = c.data, c.copied
	f := fileOf(path, i)
	f.owner = c.owner
	return f, nil
}

// readImage reads the headers of a file, after decompressing it if necessary.
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

// openFile opens an ELF file without its debugging information.
func openFile(a *allowance.Allowance, root, path string) (*File, error) {
	c, err := withFile(Search{Root: root, Allowance: a}, path, readContents, func(c contents) { _ = c.close() })
	if err != nil {
		return nil, err
	}
	f, err := newFile(filepath.Join(root, path), c)
	if err == nil {
		f.path, f.allowance = path, a
	}
	return f, err
}
