package object

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/allowance"
)

// nobody is the ID of the user and the group that have only the rights of everybody (overflowuid and overflowgid in proc_sys_kernel(5)).
const nobody = 65534

// Owners returns the IDs of the users who control the file names in lines: the owners of the file and of its debugging information. Files
// in perf's cache count as nobody's: they are copies, owned by the user who made the recording.
func (f *File) Owners() []int {
	owners := []int{f.owner}
	for _, part := range []*File{f.debug, f.sup} {
		if part != nil {
			owners = append(owners, part.owner)
		}
	}
	return owners
}

// ReadFileAs is like ReadFile, for a path chosen by the given users: each of them must have the right to read the file. Root and the user
// of this process have the rights of this process. The rights of others are checked without their groups, and only root can check them
// (CAP_SETUID and CAP_SETGID).
func (s Search) ReadFileAs(users []int, path string, limit int64) ([]byte, error) {
	others := slices.DeleteFunc(slices.Clone(users), func(user int) bool { return user == 0 || user == os.Geteuid() })
	if len(others) == 0 {
		return s.ReadFile(path, limit)
	}
	slices.Sort(others)
	if s.Root == "" {
		var err error
		if path, err = filepath.Abs(path); err != nil { // otherwise the directories above the working directory would not be checked
			return nil, err
		}
	}
	return allowance.Read(s.Allowance, "read "+filepath.Join(s.Root, path), func() ([]byte, error) {
		return readFileAs(others, s.Root, path, limit)
	}, nil)
}

func readFileAs(users []int, root, path string, limit int64) ([]byte, error) {
	w, err := walkFrom(root)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // it is only read
		}
	}()
	for i, user := range slices.Compact(users) {
		f, err := openAs(user, w, path)
		if err != nil {
			return nil, fmt.Errorf("with the rights of user %d: %w", user, err)
		}
		files = append(files, f)
		if i > 0 && !sameFile(f, files[0]) {
			return nil, fmt.Errorf("open %s: another file was put there while it was opened", f.Name())
		}
	}
	return readFile(files[0], limit)
}

func sameFile(a, b *os.File) bool {
	first, firstErr := a.Stat()
	second, secondErr := b.Stat()
	return errors.Join(firstErr, secondErr) == nil && os.SameFile(first, second)
}

// openAs opens a file with the rights of a user, on a thread that is used only for this.
func openAs(user int, w *walker, path string) (f *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread must end with its rights
		if err = become(user); err == nil {
			f, err = w.open(path)
		}
	}()
	<-done
	return f, err
}

// become gives this thread the file rights of a user, and none of root's. It keeps the user ID, so that the user cannot send it signals.
func become(user int) error {
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("only root can check these: setgroups: %w", err)
	}
	// These return the previous value, never an error (setfsuid(2)).
	_, _ = unix.SetfsgidRetGid(nobody)
	_, _ = unix.SetfsuidRetUid(user)
	group, _ := unix.SetfsgidRetGid(-1)
	if is, _ := unix.SetfsuidRetUid(-1); is != user || group != nobody {
		return errors.New("setfsuid: this process cannot have them: it lacks CAP_SETUID, or the user is unknown in its user namespace")
	}
	// setfsuid(2) removes the capabilities only if the thread was root.
	none := [2]unix.CapUserData{}
	return os.NewSyscallError("capset", unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
}
