package userstack

import (
	"cmp"
	"slices"

	"github.com/bperf/bperf/internal/kernel"
)

// run is a range of entries of a map.
type run struct{ first, count uint32 }

// runs allocates ranges of entries of a map.
type runs struct {
	free []run // sorted; no two touch
}

func newRuns(entries uint32) *runs { return &runs{free: []run{{0, entries}}} }

// take allocates a run of count entries. It returns false if there is none.
func (r *runs) take(count uint32) (run, bool) {
	for i := range r.free {
		f := &r.free[i]
		if f.count < count {
			continue
		}
		taken := run{f.first, count}
		f.first, f.count = f.first+count, f.count-count
		if f.count == 0 {
			r.free = slices.Delete(r.free, i, i+1)
		}
		return taken, true
	}
	return run{}, false
}

// give frees a run.
func (r *runs) give(back run) {
	if back.count == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(r.free, back.first, func(f run, first uint32) int { return cmp.Compare(f.first, first) })
	r.free = slices.Insert(r.free, i, back)
	for _, left := range []int{i, i - 1} { // merge with its neighbours
		if left >= 0 && left+1 < len(r.free) && r.free[left].first+r.free[left].count == r.free[left+1].first {
			r.free[left].count += r.free[left+1].count
			r.free = slices.Delete(r.free, left+1, left+2)
		}
	}
}

// mappingRuns allocates the runs of the map of mappings.
type mappingRuns struct {
	runs    *runs
	retired []run // programs may still read these
}

// take allocates a run of count entries. If none is free, it waits until no program reads those that were retired. Without room it returns
// an empty run.
func (m *mappingRuns) take(count uint32) (run, error) {
	taken, ok := m.runs.take(count)
	if ok || len(m.retired) == 0 {
		return taken, nil
	}
	if err := kernel.WaitForBPF(); err != nil {
		return run{}, err
	}
	for _, r := range m.retired {
		m.runs.give(r)
	}
	m.retired = m.retired[:0]
	taken, _ = m.runs.take(count)
	return taken, nil
}

// retire frees a run that programs may still read.
func (m *mappingRuns) retire(r run) {
	if r.count > 0 {
		m.retired = append(m.retired, r)
	}
}
