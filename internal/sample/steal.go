package sample

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// stolen is for how long the hypervisor had the CPUs of this machine so far; 0 where that is not known.
func stolen() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseSteal(string(text))
}

// parseSteal finds the steal time of all CPUs in /proc/stat, which is in 1/100 s (USER_HZ; proc_stat(5)).
func parseSteal(stat string) time.Duration {
	const steal = 8 // behind user, nice, system, idle, iowait, irq, softirq
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= steal || fields[0] != "cpu" {
		return 0
	}
	ticks, err := strconv.ParseUint(fields[steal], 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
