package procfs

import (
	"errors"
	"io/fs"
	"os"
)

// Tracefs returns the mount point of tracefs: /sys/kernel/tracing, or the tracing directory of debugfs before Linux 4.1 or if nobody
// mounted tracefs. If neither is mounted, it returns /sys/kernel/tracing (https://docs.kernel.org/trace/ftrace.html).
func Tracefs() string {
	const own, debug = "/sys/kernel/tracing", "/sys/kernel/debug/tracing"
	if _, err := os.Stat(own + "/events"); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(debug + "/events"); err == nil {
			return debug
		}
	}
	return own
}
