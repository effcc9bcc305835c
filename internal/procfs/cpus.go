package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the largest CPU number that is accepted. CONFIG_NR_CPUS is at most 8192.
const maxCPU = 1<<16 - 1

// OnlineCPUs returns the CPUs of this machine that are online, in ascending order.
func OnlineCPUs() ([]int, error) { return CPUs(os.DirFS("/sys"), "online") }

// IsOffline reports whether a CPU of this machine is offline.
func IsOffline(cpu int) bool {
	online, err := OnlineCPUs()
	return err == nil && !slices.Contains(online, cpu)
}

// OfflineCPUs returns the CPUs of this machine that are present but not online, in ascending order.
func OfflineCPUs() ([]int, error) {
	sys := os.DirFS("/sys")
	online, err := CPUs(sys, "online")
	if err != nil {
		return nil, err
	}
	present, err := CPUs(sys, "present")
	return slices.DeleteFunc(present, func(cpu int) bool { return slices.Contains(online, cpu) }), err
}

// CPUs returns a list of /sys/devices/system/cpu in ascending order: "online", "present" or "possible"
// (https://docs.kernel.org/admin-guide/cputopology.html).
func CPUs(sys fs.FS, which string) ([]int, error) {
	name := "devices/system/cpu/" + which
	list, err := read(sys, "/sys", name)
	if err != nil {
		return nil, fmt.Errorf("list the CPUs that are %s: %w", which, err)
	}
	cpus, err := ParseCPUList(list)
	if err != nil {
		return nil, fmt.Errorf("/sys/%s: %w", name, err)
	}
	return cpus, nil
}

// ParseCPUList parses a list of CPUs or nodes in the format of the kernel and of -C: "0-3,7". The result is in ascending order. It fails if
// a CPU is listed twice, because that CPU would be counted twice.
//
// https://docs.kernel.org/admin-guide/kernel-parameters.html#cpu-lists
func ParseCPUList(list string) ([]int, error) {
	cpus, err := parseCPUList(strings.TrimSpace(list))
	if err != nil {
		return nil, fmt.Errorf("CPU list %q: %w", list, err)
	}
	return cpus, nil
}

func parseCPUList(list string) ([]int, error) {
	if list == "" {
		return nil, errors.New("is empty")
	}
	var cpus []int
	for item := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(item, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, fmt.Errorf("%q is larger than %d", item, maxCPU)
		case err != nil:
			return nil, fmt.Errorf("%q is not a number or a range", item)
		case last < first:
			return nil, fmt.Errorf("%q ends before it begins", item)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
		if len(cpus) > maxCPU+1 {
			return nil, errors.New("has more CPUs than there can be")
		}
	}
	slices.Sort(cpus)
	for i := 1; i < len(cpus); i++ {
		if cpus[i] == cpus[i-1] {
			return nil, fmt.Errorf("%d is there twice", cpus[i])
		}
	}
	return cpus, nil
}

// FormatCPUList is the inverse of ParseCPUList, for messages.
func FormatCPUList(ascending []int) string {
	var b strings.Builder
	for i := 0; i < len(ascending); {
		end := i
		for end+1 < len(ascending) && ascending[end+1] == ascending[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ascending[i]))
		if end > i {
			b.WriteString("-" + strconv.Itoa(ascending[end]))
		}
		i = end + 1
	}
	return b.String()
}
