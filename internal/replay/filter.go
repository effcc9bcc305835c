package replay

import (
	"slices"

	"github.com/bperf/bperf/perfdata"
)

// wants reports whether a sample of a thread passes the filter.
func (f *Filter) wants(s *perfdata.Sample, t *thread) bool {
	inRange := func(r TimeRange) bool { return s.Time >= r.Start && s.Time <= r.End }
	switch {
	case len(f.Times) > 0 && !slices.ContainsFunc(f.Times, inRange),
		len(f.PIDs) > 0 && !slices.Contains(f.PIDs, t.PID),
		len(f.TIDs) > 0 && !slices.Contains(f.TIDs, t.TID),
		len(f.Comms) > 0 && !slices.Contains(f.Comms, t.Comm),
		len(f.CPUs) > 0 && s.Fields.Has(perfdata.SampleCPU) && !slices.Contains(f.CPUs, int(s.CPU)):
		return false
	}
	return true
}
