// Package keeper lets the sessions of tests share counters with each other, but not with other sessions of the machine.
package keeper

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Keeper is a bpffs for all tests of a process, and a session that keeps the shared counters there in use. So the kernel verifies the BPF
// programs only once, not for each test, which takes seconds in a guest. It needs root.
type Keeper struct {
	mount string
	keeps io.Closer
}

// Dir returns the directory through which the sessions find each other.
func (c *Keeper) Dir() string { return filepath.Join(c.mount, "bperf") }

// Open mounts the bpffs and calls keep, which opens the session there. Later calls do nothing.
func (c *Keeper) Open(keep func(dir string) (io.Closer, error)) error {
	if c.keeps != nil {
		return nil
	}
	mount, err := os.MkdirTemp("", "bperf-test-")
	if err != nil {
		return err
	}
	if err := unix.Mount("bpf", mount, "bpf", 0, ""); err != nil {
		return errors.Join(err, os.Remove(mount))
	}
	c.mount = mount
	session, err := keep(c.Dir())
	if err != nil {
		return errors.Join(err, c.Close())
	}
	c.keeps = session
	return nil
}

// Close ends the session and unmounts the bpffs. It does nothing if Open has not succeeded.
func (c *Keeper) Close() error {
	if c.mount == "" {
		return nil
	}
	var err error
	if c.keeps != nil {
		err = c.keeps.Close()
	}
	err = errors.Join(err, unix.Unmount(c.mount, unix.MNT_DETACH), os.Remove(c.mount))
	*c = Keeper{}
	return err
}
