package cli

import (
	"os"

	"github.com/bperf/bperf/internal/stat"
)

// compatVariable is the environment variable that stands in for --compat.
const compatVariable = "BPERF_COMPAT"

// parseCompat sets the version of perf whose metrics are printed: that of --compat, else that of the environment, else the newest.
func (o *statOptions) parseCompat(given bool) (err error) {
	from, version := "--compat", o.compat
	if !given {
		from, version = compatVariable, os.Getenv(compatVariable)
		if version == "" {
			return nil
		}
	}
	if o.likePerf, err = stat.ParseCompat(version); err != nil {
		return badOptionf("%s: %w", from, err)
	}
	return nil
}

// printedMetrics returns the names of the metrics to print: those of -M. It returns nil for all without -M, and if -d adds events.
func (o *statOptions) printedMetrics() []string {
	if o.detailed > 0 {
		return nil
	}
	return o.namedMetrics
}
