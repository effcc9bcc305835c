package count

import (
	"math/bits"
	"slices"
)

// Buckets is the number of buckets in a histogram of Runs: one each for 0 to 3, then 4 for each power of 2.
const Buckets = 252

// Runs has the counts of an event in single runs of a BPF program.
type Runs struct {
	Counted uint64 // runs that are in the reading

	// Min, Max and Buckets have only runs during which the event was always on a counter.
	Min, Max uint64
	Ranged   bool // Min and Max are valid: false for a difference of two readings, and without runs
	Buckets  [Buckets]uint64

	// Probes is the count of bperf's own probes in all runs, as if the event had been on a counter all the time.
	Probes         uint64
	Unmeasured     uint64 // runs with an unknown count of the probes; Probes does not include them
	ProbesMeasured bool   // Probes was measured
	Calibrated     bool   // Probes was subtracted from each run, so the reading does not include it
}

// Add adds the runs in o.
func (r *Runs) Add(o *Runs) {
	r.Counted += o.Counted
	r.Probes += o.Probes
	r.Unmeasured += o.Unmeasured
	r.ProbesMeasured = r.ProbesMeasured || o.ProbesMeasured
	r.Calibrated = r.Calibrated || o.Calibrated
	switch {
	case !o.Ranged:
	case !r.Ranged:
		r.Min, r.Max, r.Ranged = o.Min, o.Max, true
	default:
		r.Min, r.Max = min(r.Min, o.Min), max(r.Max, o.Max)
	}
	for i, n := range o.Buckets {
		r.Buckets[i] += n
	}
}

// Sub subtracts an earlier reading. Min and Max are then unknown.
func (r *Runs) Sub(earlier *Runs) {
	r.Counted -= earlier.Counted
	r.Probes -= earlier.Probes
	r.Unmeasured -= earlier.Unmeasured
	r.Min, r.Max, r.Ranged = 0, 0, false
	for i, n := range earlier.Buckets {
		r.Buckets[i] -= n
	}
}

// ProbesPerRun returns the mean count of bperf's own probes in a run, rounded, and false if it is unknown.
func (r *Runs) ProbesPerRun() (uint64, bool) {
	if !r.ProbesMeasured || r.Unmeasured > 0 || r.Counted == 0 {
		return 0, false
	}
	return (r.Probes + r.Counted/2) / r.Counted, true
}

// Quantile estimates the value that the share p (0 to 1) of the runs does not exceed: the middle of a bucket, which
// is at most an eighth off. ok is false if there are no runs.
func (r *Runs) Quantile(p float64) (value float64, ok bool) {
	var all, seen uint64
	for _, n := range r.Buckets {
		all += n
	}
	i := slices.IndexFunc(r.Buckets[:], func(n uint64) bool {
		seen += n
		return n > 0 && float64(seen) >= p*float64(all)
	})
	if i < 0 {
		return 0, false
	}
	low, width := bucket(i)
	value = low + (width-1)/2
	if r.Ranged {
		value = min(max(value, float64(r.Min)), float64(r.Max))
	}
	return value, true
}

// Bucket is a part of a histogram: the number of runs that counted from Low to High.
type Bucket struct {
	Low, High float64
	Runs      uint64
}

// Histogram returns the buckets from the first to the last with runs. It merges adjacent empty buckets into one.
func (r *Runs) Histogram() (all []Bucket) {
	filled := func(n uint64) bool { return n > 0 }
	first := slices.IndexFunc(r.Buckets[:], filled)
	if first < 0 {
		return nil
	}
	last := len(r.Buckets) - 1
	for r.Buckets[last] == 0 {
		last--
	}
	for i := first; i <= last; i++ {
		low, width := bucket(i)
		if n := len(all) - 1; r.Buckets[i] == 0 && all[n].Runs == 0 {
			all[n].High = low + width - 1
			continue
		}
		all = append(all, Bucket{low, low + width - 1, r.Buckets[i]})
	}
	return all
}

// bucket returns the lowest value of bucket i, and the number of values in it.
func bucket(i int) (low, width float64) {
	if i < 4 {
		return float64(i), 1
	}
	w := uint64(1) << (i/4 - 1)
	return float64(uint64(4+i%4) * w), float64(w)
}

// BucketOf returns the index of a value's bucket, as bucket in bpf/probes.bpf.c does. In Go only tests need it. It stays beside bucket, its
// inverse, because the tests of several packages fill buckets.
func BucketOf(value uint64) int {
	if value < 4 {
		return int(value)
	}
	log := bits.Len64(value) - 1
	return (log-1)*4 + int(value>>(log-2)&3)
}
