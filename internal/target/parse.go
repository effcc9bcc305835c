package target

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxCPU bounds the CPU numbers that are believed: CONFIG_NR_CPUS is 8192 at most.
const maxCPU = 1<<16 - 1

// ParseCPUList parses a list of CPUs or nodes as the kernel writes it and -C takes it: "0-3,7". The
// result is ascending. Naming a CPU twice is an error, as it would be counted twice.
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
		first, err := parseNumber(from, maxCPU)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		last := first
		if isRange {
			if last, err = parseNumber(to, maxCPU); err != nil {
				return nil, fmt.Errorf("%q: %w", item, err)
			}
		}
		if last < first {
			return nil, fmt.Errorf("%q: the range ends before it begins", item)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
		if len(cpus) > maxCPU+1 {
			return nil, errors.New("has more CPUs than there can be")
		}
	}
	slices.Sort(cpus)
	if twice, ok := firstDuplicate(cpus); ok {
		return nil, fmt.Errorf("%d is there twice", twice)
	}
	return cpus, nil
}

// ParseIDs parses a list of process or thread IDs as -p and -t take it: "12,7". The order stays.
func ParseIDs(list string) ([]int, error) {
	if strings.TrimSpace(list) == "" {
		return nil, fmt.Errorf("ID list %q: is empty", list)
	}
	var ids []int
	for item := range strings.SplitSeq(list, ",") {
		id, err := parseNumber(strings.TrimSpace(item), math.MaxInt32)
		if err == nil && id == 0 {
			err = errors.New("IDs begin at 1")
		}
		if err != nil {
			return nil, fmt.Errorf("ID list %q: %q: %w", list, item, err)
		}
		ids = append(ids, id)
	}
	if twice, ok := firstDuplicate(slices.Sorted(slices.Values(ids))); ok {
		return nil, fmt.Errorf("ID list %q: %d is there twice", list, twice)
	}
	return ids, nil
}

// parseNumber parses decimal digits and nothing else: no sign, no space, no underscore.
func parseNumber(s string, limit int) (int, error) {
	if s == "" {
		return 0, errors.New("a number is missing")
	}
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, fmt.Errorf("unexpected %q in a number", r)
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > uint64(limit) {
		return 0, fmt.Errorf("is larger than %d", limit)
	}
	return int(n), nil
}

func firstDuplicate(ascending []int) (int, bool) {
	for i := 1; i < len(ascending); i++ {
		if ascending[i] == ascending[i-1] {
			return ascending[i], true
		}
	}
	return 0, false
}
