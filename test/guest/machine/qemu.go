package machine

import (
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bperf/bperf/test/apt"
)

// qemuSuite is newer than Debian 12, whose QEMU 7.2 takes a sixth to two thirds more CPU time for arm64's guests than 10.0, and a fifth more for amd64's.
const qemuSuite = "trixie"

// FindQEMU returns the path of QEMU for the architecture, out of a cache if it is there.
func (a Arch) FindQEMU(cache string) (string, error) {
	qemu := apt.Program{
		Name:    a.QEMU,
		Suite:   qemuSuite,
		Package: a.Package,
		With: func(name string) bool {
			return strings.HasPrefix(name, "lib") || name == "zlib1g" || name == "qemu-system-data" || name == "seabios"
		},
		Args: `-L "$cd/usr/share/qemu" -L "$cd/usr/share/seabios"`,
	}
	return qemu.Get(filepath.Join(cache, qemuSuite+"-"+runtime.GOARCH+"-"+a.QEMU))
}
