package sample

import (
	"os"
	"time"

	"github.com/bperf/bperf/internal/procfs"
)

// stolen returns the time since boot for which the hypervisor has taken the CPUs from this machine; 0 if unknown.
func stolen() time.Duration {
	stat, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return 0
	}
	return stat.All.Steal
}
