package object

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// vdso is the name of the vDSO in maps and in recordings.
const vdso = "[vdso]"

// VDSO returns the vDSO of the running kernel, as this process has it mapped. Its path is [vdso].
func VDSO() (*File, error) {
	data, err := ownMapping(vdso)
	if err != nil {
		return nil, fmt.Errorf("read the vDSO of this process: %w", err)
	}
	return New(vdso, data)
}

// ownMapping reads a mapping of this process by its name in /proc/self/maps.
func ownMapping(name string) ([]byte, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { _ = maps.Close() }()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		if !strings.HasSuffix(lines.Text(), " "+name) {
			continue
		}
		var start, end uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &start, &end); err != nil {
			return nil, fmt.Errorf("/proc/self/maps has %q: %w", lines.Text(), err)
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil, err
		}
		defer func() { _ = memory.Close() }()
		data := make([]byte, end-start)
		if _, err := memory.ReadAt(data, int64(start)); err != nil {
			return nil, err
		}
		return data, nil
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("no %s is mapped: the kernel has none, or it is turned off (vdso=0)", name)
}
