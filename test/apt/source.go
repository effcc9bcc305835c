package apt

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
)

var tarball = regexp.MustCompile(`/usr/src/linux-source-[^/]+\.tar\.xz$`)

// UnpackSource makes the directory dst, and unpacks parts of the kernel's source into it. pkg is the package with the source, such as
// linux-source-6.12; parts are paths in the kernel's tree. It needs tar and xz.
func (a *Archive) UnpackSource(pkg, dst string, parts ...string) error {
	file := dst + ".tar.xz"
	if err := a.Extract(pkg, tarball, file); err != nil {
		return fmt.Errorf("get the source in %s: %w", pkg, err)
	}
	defer os.Remove(file)
	if err := os.Mkdir(dst, 0o755); err != nil {
		return err
	}
	args := []string{"--use-compress-program=xz -T0", "--strip-components=1", "-C", dst, "-xf", file}
	for _, p := range parts {
		args = append(args, path.Join(pkg, p))
	}
	if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", pkg, err, out)
	}
	return nil
}
