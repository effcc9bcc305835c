package stat

// DefaultEvents returns the events to count when the user names none. They are perf's: a clock for the CPU time, software events, and the
// basic events of a PMU. With perCPU the clock is cpu-clock, otherwise task-clock. detail adds DetailedEvents.
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

// DetailedEvents returns the events that -d, -dd and -ddd (1, 2 and 3) add: caches, then instruction cache and TLBs, then prefetches.
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
