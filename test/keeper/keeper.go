// Package keeper has the sessions of tests share counters apart from those of the machine.
package keeper

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Keeper is a bpffs that all tests of a process use, and a session that keeps what is shared there: the kernel verifies the BPF programs once, and not for
// each test, which takes seconds in a guest. It needs root.
type Keeper struct {
	mount string
	keeps io.Closer
}

// Dir returns the directory through which the sessions find each other.
func (c *Keeper) Dir() string { return filepath.Join(c.mount, "bperf") }

// Open mounts the bpffs and has keep open the session there, the first time that it is called.
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

// Close ends the session and unmounts the bpffs, if they are there.
func (c *Keeper) Close() error {
	if c.mount == "" {
		return nil
	}
	var err error
	if c.keeps != nil {
		err = c.keeps.Close()
	}
	err = errors.Join(err, unix.Unmount(c.mount, 0), os.Remove(c.mount))
	*c = Keeper{}
	return err
}
