package object

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/userfile"
)

// store is a directory with decompressed sections for later runs: decompressing is most of the work of a small report. Only this user can
// change its files. A file is named after the SHA-256 of the compressed section, so that nobody's file can stand for another. It has the
// section's first bytes, as many as were needed, and their CRC-32C.
type store struct {
	dir       string
	allowance *allowance.Allowance
}

const (
	leastStored      = 128 << 10 // bytes of a section: smaller ones decompress in a millisecond
	mostStored       = 64 << 20  // bytes of a section
	mostStoredInAll  = 256 << 20 // bytes of the files
	storedSumSize    = 4
	storedNameLength = 2 * sha256.Size
)

// stored is a section that is to be stored.
type stored struct {
	*store
	packed []byte // the section in its file
	path   string // empty until read has looked for it
	from   uint64 // bytes that path has
	sum    uint32 // CRC-32C of the section's valid bytes
}

// of returns what is stored of a section of the given size. It returns nil if the section is not to be stored.
func (s *store) of(packed []byte, size uint64) *stored {
	if s == nil || s.dir == "" || size < leastStored || size > mostStored {
		return nil
	}
	return &stored{store: s, packed: packed}
}

// open calls open, which may block, and returns its file.
func (s *store) open(open func() (*os.File, error)) (*os.File, error) {
	return allowance.Read(s.allowance, s.dir, open, func(f *os.File) { _ = f.Close() })
}

// create returns a new file without a name for the contents of a section of the given size.
func (s *stored) create(size uint64) (*os.File, error) {
	return s.open(func() (*os.File, error) {
		if err := userfile.MakeOwned(s.dir); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(s.dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		// A full disk is found here, while a scratch file elsewhere can still take its place.
		if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size+storedSumSize)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	})
}

// read maps what an earlier run has stored in place of data, which has the size of the section, and returns the number of valid bytes.
func (s *stored) read(data, buffer []byte) uint64 {
	name := sha256.Sum256(s.packed)
	s.path = filepath.Join(s.dir, hex.EncodeToString(name[:]))
	f, err := s.open(func() (*os.File, error) { return userfile.OpenOwned(s.path, os.O_RDONLY) })
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= storedSumSize || uint64(info.Size()-storedSumSize) > uint64(len(data)) {
		return 0
	}
	sum, want := crc32.New(userfile.Castagnoli()), make([]byte, storedSumSize)
	valid := info.Size() - storedSumSize
	if _, err := io.CopyBuffer(sum, io.LimitReader(f, valid), buffer); err != nil {
		return 0
	}
	if _, err := io.ReadFull(f, want); err != nil || binary.LittleEndian.Uint32(want) != sum.Sum32() {
		return 0
	}
	if err := mapOver(data[:valid], int(f.Fd()), unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		return 0
	}
	now := time.Now()
	_ = os.Chtimes(s.path, now, now) // keeps it for longer
	s.from, s.sum = uint64(valid), sum.Sum32()
	return s.from
}

// add adds valid bytes.
func (s *stored) add(part []byte) { s.sum = crc32.Update(s.sum, userfile.Castagnoli(), part) }

// end gives the file with the valid bytes of the section its name, if it has more than the file with that name, and closes it. f is nil if
// nothing was decompressed.
func (s *stored) end(f *os.File, valid uint64) {
	if f == nil {
		return
	}
	if valid > s.from {
		_ = s.name(f, valid) // the next run tries again
	}
	_ = f.Close()
}

func (s *stored) name(f *os.File, valid uint64) error {
	if _, err := f.WriteAt(binary.LittleEndian.AppendUint32(nil, s.sum), int64(valid)); err != nil {
		return err
	}
	if err := f.Truncate(int64(valid) + storedSumSize); err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	self := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, s.path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return err
	}
	return trim(s.dir, mostStoredInAll)
}

// trim removes the files that were not used for the longest time until the others have at most the given number of bytes.
func trim(dir string, most int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && len(e.Name()) == storedNameLength {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var errs []error
	for _, info := range files {
		if most -= info.Size(); most < 0 {
			errs = append(errs, os.Remove(filepath.Join(dir, info.Name())))
		}
	}
	return errors.Join(errs...)
}
