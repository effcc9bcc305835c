package procfs

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Module is the location of a kernel module's code.
type Module struct {
	Name        string
	Start, Size uint64 // bytes
}

// Modules reads /proc/modules (proc_modules(5)). It returns the modules in ascending order of addresses, without modules whose addresses
// are hidden. The kernel reports the size of all memory of a module, which is in several places since Linux 6.4, so Modules cuts Size at
// the start of the next module.
func Modules(proc fs.FS) ([]Module, error) {
	text, err := read(proc, "/proc", "modules")
	if err != nil {
		return nil, err
	}
	var all []Module
	for line := range strings.Lines(text) {
		fields := strings.Fields(line) // name, size, references, users, state, address
		if len(fields) < 6 {
			continue
		}
		address, ok := strings.CutPrefix(fields[5], "0x")
		start, _ := strconv.ParseUint(address, 16, 64) // 0 if malformed
		size, err := strconv.ParseUint(fields[1], 10, 32)
		if !ok || start == 0 || err != nil {
			continue
		}
		all = append(all, Module{fields[0], start, size})
	}
	slices.SortFunc(all, func(a, b Module) int { return cmp.Compare(a.Start, b.Start) })
	for i := range all[:max(0, len(all)-1)] {
		all[i].Size = min(all[i].Size, all[i+1].Start-all[i].Start)
	}
	return all, nil
}
