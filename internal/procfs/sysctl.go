package procfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// Sysctl returns the value of a numeric setting, such as "kernel/perf_event_paranoid"
// (https://docs.kernel.org/admin-guide/sysctl/index.html).
func Sysctl(proc fs.FS, name string) (int, error) {
	text, err := read(proc, "/proc", "sys/"+name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(text))
}

// PerfEventParanoid returns kernel.perf_event_paranoid (https://docs.kernel.org/admin-guide/sysctl/kernel.html#perf-event-paranoid). If it
// cannot be read, it returns 2, the kernel's default.
func PerfEventParanoid(proc fs.FS) int {
	level, err := Sysctl(proc, "kernel/perf_event_paranoid")
	if err != nil {
		return 2
	}
	return level
}
