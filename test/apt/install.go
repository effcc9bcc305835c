// Package apt gets programs and files that tests need from Debian's archive. It installs programs on this machine, and extracts files from
// packages of other suites and architectures.
package apt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Need makes sure that programs and files exist. things maps the names of programs, and the absolute paths of files, to their packages. As
// root, Need installs the missing packages by apt. Otherwise the error contains the command that installs them.
func Need(things map[string]string) error {
	var missing, packages []string
	for thing, pkg := range things {
		if !found(thing) {
			missing = append(missing, thing)
			packages = append(packages, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	slices.Sort(packages)
	remedy := "apt-get install " + strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing here: %s. Get it with: %s", strings.Join(missing, ", "), remedy)
	}
	fmt.Fprintln(os.Stderr, "installing what is missing:", remedy)
	if err := run("apt-get", "-q", "update"); err != nil {
		return err
	}
	return run("apt-get", append([]string{"-q", "-y", "--no-install-recommends", "install"}, packages...)...)
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
