package procfs

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// CPUInfo has the fields of /proc/cpuinfo of the first CPU.
type CPUInfo map[string]string

// ReadCPUInfo reads the first CPU's fields, in the first page of the file: the kernel makes those of further CPUs only as they are read. The
// result is empty if the file cannot be read.
func ReadCPUInfo(proc fs.FS) CPUInfo {
	info := CPUInfo{}
	f, err := proc.Open("cpuinfo")
	if err != nil {
		return info
	}
	defer f.Close()
	const page = 4096
	text, _ := io.ReadAll(io.LimitReader(f, page)) // what was read before an error
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			if len(info) > 0 {
				break
			}
			continue
		}
		info[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return info
}

// ID returns vendor, family, model and stepping on x86 ("GenuineIntel,6,142,10"), and on arm64 MIDR_EL1 of the CPU ("0x00000000410fd0c0",
// Documentation/arch/arm64/cpu-feature-registers.rst). It is empty if the kernel reports neither.
func (c CPUInfo) ID(sys fs.FS, cpu int) string {
	if c["vendor_id"] != "" {
		return strings.Join([]string{c["vendor_id"], c["cpu family"], c["model"], c["stepping"]}, ",")
	}
	midr, _ := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu)) // empty if there is none
	return strings.TrimSpace(string(midr))
}
