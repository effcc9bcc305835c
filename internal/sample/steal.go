package sample

import (
	"os"
	"time"

	"github.com/bperf/bperf/internal/procfs"
)

// stolen is for how long the hypervisor had the CPUs of this machine so far; 0 where that is not known.
func stolen() time.Duration {
	stat, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return 0
	}
	return stat.All.Steal
}
