package stat

// DefaultEvents are counted when none are named, as perf's are: a clock for the time on CPUs,
// what the kernel counts, and the basics of a PMU. For counters that belong to CPUs the clock is
// theirs. detail adds DetailedEvents.
func DefaultEvents(detail int, perCPU bool) []string {
	clock := "task-clock"
	if perCPU {
		clock = "cpu-clock"
	}
	events := []string{
		clock, "context-switches", "cpu-migrations", "page-faults",
		"cycles", "stalled-cycles-frontend", "stalled-cycles-backend",
		"instructions", "branches", "branch-misses",
	}
	return append(events, DetailedEvents(detail)...)
}

// DetailedEvents are what -d, -dd and -ddd (1, 2 and 3) add: caches, then instruction cache and TLBs,
// then prefetches.
func DetailedEvents(detail int) []string {
	levels := [][]string{
		{"L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses"},
		{"L1-icache-loads", "L1-icache-load-misses", "dTLB-loads", "dTLB-load-misses", "iTLB-loads", "iTLB-load-misses"},
		{"L1-dcache-prefetches", "L1-dcache-prefetch-misses"},
	}
	var events []string
	for _, level := range levels[:min(max(detail, 0), len(levels))] {
		events = append(events, level...)
	}
	return events
}
