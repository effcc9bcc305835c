package replay

import (
	"slices"

	"github.com/bperf/bperf/perfdata"
)

type filter struct {
	Filter
	pids, tids map[int32]bool
	comms      map[string]bool
	any        bool // the filter is empty
}

func newFilter(f Filter) filter {
	return filter{Filter: f, pids: set(f.PIDs), tids: set(f.TIDs), comms: set(f.Comms),
		any: len(f.Times)+len(f.Comms)+len(f.PIDs)+len(f.TIDs)+len(f.CPUs) == 0}
}

func set[T comparable](list []T) map[T]bool {
	m := map[T]bool{}
	for _, v := range list {
		m[v] = true
	}
	return m
}

func (f *filter) wants(s *perfdata.Sample, t *thread) bool {
	switch {
	case f.any:
		return true
	case len(f.Times) > 0 && !f.inTime(s.Time):
		return false
	case len(f.pids) > 0 && !f.pids[t.PID], len(f.tids) > 0 && !f.tids[t.TID], len(f.comms) > 0 && !f.comms[t.Comm]:
		return false
	}
	return len(f.CPUs) == 0 || !s.Fields.Has(perfdata.SampleCPU) || slices.Contains(f.CPUs, int(s.CPU))
}

func (f *filter) inTime(time uint64) bool {
	return slices.ContainsFunc(f.Times, func(r TimeRange) bool { return time >= r.Start && time <= r.End })
}
