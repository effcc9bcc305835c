// Package apt gets programs and files that tests need from Debian's archive. It installs programs on this machine, and extracts files from
// packages of other suites and architectures.
package apt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Need makes sure that programs and files exist. things maps the names of programs, and the absolute paths of files, to their packages. As
// root, Need installs the missing packages by apt. Otherwise the error contains the command that installs them.
func Need(things map[string]string) error {
	names, packages := missing(things)
	if len(names) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing here: %s. Get it with: apt-get install %s", strings.Join(names, ", "), strings.Join(packages, " "))
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, packages = missing(things); len(packages) == 0 { // another process has installed them
		return nil
	}
	fmt.Fprintln(os.Stderr, "installing what is missing: apt-get install", strings.Join(packages, " "))
	if err := run("apt-get", "-q", "update"); err != nil {
		return err
	}
	return run("apt-get", append([]string{"-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600", "install"}, packages...)...)
}

// missing returns the things that do not exist, and their packages.
func missing(things map[string]string) (names, packages []string) {
	for thing, pkg := range things {
		if !found(thing) {
			names = append(names, thing)
			packages = append(packages, pkg)
		}
	}
	slices.Sort(names)
	slices.Sort(packages)
	return names, packages
}

// lock waits until no other call of Need installs packages, in this process or another. apt fails when the package lists are in use.
func lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "bperf-test-apt.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
			return f.Close, nil // closing unlocks
		} else if err != unix.EINTR {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
	}
}

func found(thing string) bool {
	if filepath.IsAbs(thing) {
		_, err := os.Stat(thing)
		return err == nil
	}
	_, err := exec.LookPath(thing)
	return err == nil
}

func run(name string, args ...string) error {
	if _, err := output(name, args...); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// output returns the standard output of a command. An error includes the command's standard error.
func output(name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
