package debuginfod

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cache is the directory that all clients of debuginfod share. elfutils calls its names undocumented; these are those of the client of
// elfutils 0.196. All access is below the directory: what others link there leads nowhere else.
type cache struct {
	dir  string
	root *os.Root
}

// openCache opens the directory, and makes it if necessary.
func openCache(dir string) (*cache, error) {
	if dir == "" {
		return nil, errors.New("no directory for files of debuginfod: set $DEBUGINFOD_CACHE_PATH")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for files of debuginfod: %w; set $DEBUGINFOD_CACHE_PATH to another one", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory for files of debuginfod: %w", err)
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return nil, errors.Join(fmt.Errorf("the directory for files of debuginfod, %s, belongs to user %d: set $DEBUGINFOD_CACHE_PATH to one of your own",
			dir, owner), root.Close())
	}
	return &cache{dir, root}, nil
}

// find returns whether the cache has a file, or knows that no server had it a short time ago: an empty file says so.
func (c *cache) find(name string) (there, missing bool) {
	info, err := c.root.Stat(name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return false, false
	case info.Size() > 0:
		_ = c.root.Chtimes(name, time.Now(), info.ModTime()) // keeps clients from removing it as unused
		return true, false
	}
	age := time.Since(info.ModTime())
	return false, age < c.seconds("cache_miss_s", 10*time.Minute)
}

// seconds returns the number of seconds in a control file.
func (c *cache) seconds(name string, preset time.Duration) time.Duration {
	f, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return preset
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	n, notNumber := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || notNumber != nil {
		return preset
	}
	return time.Duration(n) * time.Second
}

// missed records that no server has a file.
func (c *cache) missed(name string) error {
	if err := c.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := c.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// partSuffix ends the names of files that are being fetched.
const partSuffix = ".bperf-part"

// create creates a file that gets its name when it is complete.
func (c *cache) create(name string) (*os.File, error) {
	dir := path.Dir(name)
	if err := c.root.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c.removeParts(dir)
	part := fmt.Sprintf("%s.%d-%d%s", path.Join(dir, path.Base(name)[:min(len(path.Base(name)), 64)]), os.Getpid(), time.Now().UnixNano(), partSuffix)
	return c.root.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// part returns the name of a file of create below the cache's directory.
func (c *cache) part(f *os.File) string {
	return path.Join(path.Base(path.Dir(f.Name())), path.Base(f.Name()))
}

// removeParts removes what runs that were killed have left in a directory. A transfer writes all the time.
func (c *cache) removeParts(dir string) {
	for _, e := range c.entries(dir) {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), partSuffix) && time.Since(info.ModTime()) > time.Hour {
			_ = c.root.Remove(path.Join(dir, e.Name())) // the next run tries again
		}
	}
}

// mostEntries is the maximum number of entries of a directory that are read.
const mostEntries = 1 << 16

func (c *cache) entries(dir string) []fs.DirEntry {
	d, err := c.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	all, _ := d.ReadDir(mostEntries) // with an error, there are those before it
	return all
}

// keep gives a complete file its name.
func (c *cache) keep(f *os.File, name string) error {
	if err := f.Chmod(0o400); err != nil {
		return err
	}
	return c.root.Rename(c.part(f), name)
}

// clean removes files that no client has used for a week, once a day. The control files can change both.
func (c *cache) clean() {
	const control = "cache_clean_interval_s"
	info, err := c.root.Stat(control)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			_ = c.root.WriteFile(control, []byte("86400"), 0o644) // without it, nothing is ever removed
		}
		return
	}
	if time.Since(info.ModTime()) < c.seconds(control, 24*time.Hour) || c.root.Chtimes(control, time.Now(), time.Now()) != nil {
		return
	}
	age := c.seconds("max_unused_age_s", 7*24*time.Hour)
	for _, d := range c.entries(".") {
		if !d.IsDir() || !isBuildID(d.Name()) {
			continue
		}
		for _, e := range c.entries(d.Name()) {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || !isCached(e.Name()) {
				continue
			}
			if used := time.Unix(info.Sys().(*syscall.Stat_t).Atim.Unix()); time.Since(used) > age {
				_ = c.root.Remove(path.Join(d.Name(), e.Name()))
			}
		}
		_ = c.root.Remove(d.Name()) // fails unless it is empty
	}
}

// isCached reports whether a file in the directory of a build ID is a client's.
func isCached(name string) bool {
	for _, prefix := range []string{"debuginfo", "executable", "source", "hdr-", "section"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isBuildID reports whether a text is a build ID in hexadecimal digits.
func isBuildID(text string) bool {
	const shortest, longest = 4, 128 // servers accept even digits; GNU ld makes 32 or 40
	return len(text) >= shortest && len(text) <= longest && len(text)%2 == 0 && strings.Trim(text, "0123456789abcdef") == ""
}

// sourceName returns the name of a source file in the directory of its build ID. The path's letters, digits and "-._" remain, all others
// become "#", and the end of a long path; a hash keeps paths apart (Bernstein's, times 33).
func sourceName(file string) string {
	const longest = 117
	hash, plain := uint32(5381), []byte(file)
	for i, c := range plain {
		hash = hash*33 + uint32(int8(c)) // as C does on x86-64, where char is signed
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			plain[i] = '#'
		}
	}
	return fmt.Sprintf("source-%08x-%s", hash, plain[max(0, len(plain)-longest):])
}
