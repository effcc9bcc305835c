package procfs

import (
	"errors"
	"io/fs"
	"os"
)

// Tracefs returns where tracefs is mounted: on its own mount point, or, before Linux 4.1 and where nobody mounted it, in debugfs. If it is not mounted at all, it
// returns the mount point where it should be (https://docs.kernel.org/trace/ftrace.html).
func Tracefs() string {
	const own, debug = "/sys/kernel/tracing", "/sys/kernel/debug/tracing"
	if _, err := os.Stat(own + "/events"); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(debug + "/events"); err == nil {
			return debug
		}
	}
	return own
}
