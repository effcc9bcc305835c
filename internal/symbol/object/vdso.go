package object

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/internal/procfs"
)

// vdso is the name of the vDSO in /proc/PID/maps and in recordings.
const vdso = "[vdso]"

// VDSO returns the vDSO of the running kernel, from this process's memory. Its path is [vdso].
func VDSO() (*File, error) {
	data, err := ownMapping(vdso)
	if err != nil {
		return nil, fmt.Errorf("read the vDSO of this process: %w", err)
	}
	return parse(vdso, data)
}

// ownMapping returns the contents of a mapping of this process, by its name in /proc/self/maps.
func ownMapping(name string) ([]byte, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = maps.Close() }()
	for m := range procfs.Mappings(maps, nil) {
		if string(m.Path) != name {
			continue
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil, err
		}
		defer func() { _ = memory.Close() }()
		data := make([]byte, m.End-m.Start)
		if _, err := memory.ReadAt(data, int64(m.Start)); err != nil {
			return nil, err
		}
		return data, nil
	}
	return nil, fmt.Errorf("no %s is mapped: the kernel has none, or it is turned off (vdso=0)", name)
}
