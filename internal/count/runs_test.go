package count

import (
	"math"
	"slices"
	"testing"
)

// TestBuckets checks that each bucket begins where the one before it ends, and contains its values.
func TestBuckets(t *testing.T) {
	next := 0.0
	for i := range Buckets {
		low, width := bucket(i)
		if low != next {
			t.Fatalf("bucket %d begins at %v, want %v", i, low, next)
		}
		next = low + width
		first := uint64(low)
		last := first + uint64(width) - 1
		if BucketOf(first) != i || BucketOf(last) != i {
			t.Fatalf("bucket %d: its values %d and %d are in %d and %d", i, first, last, BucketOf(first), BucketOf(last))
		}
		if i >= 4 && width/low > 0.25 {
			t.Errorf("bucket %d is %v wide, at %v", i, width, low)
		}
	}
	if next != math.Pow(2, 64) {
		t.Errorf("the last bucket ends at %v", next)
	}
}

// runsOf returns runs with these values.
func runsOf(values ...uint64) *Runs {
	r := &Runs{}
	for _, v := range values {
		one := &Runs{Counted: 1, Min: v, Max: v, Ranged: true}
		one.Buckets[BucketOf(v)] = 1
		r.Add(one)
	}
	return r
}

func TestQuantile(t *testing.T) {
	var thousand []uint64
	for v := range uint64(1000) {
		thousand = append(thousand, v+1)
	}
	for _, test := range []struct {
		name    string
		runs    *Runs
		p, want float64
	}{
		{"a single run is exact", runsOf(1234567), 0.5, 1234567},
		{"equal runs are exact", runsOf(999, 999, 999), 0.99, 999},
		{"0 is a value", runsOf(0, 0, 0, 5), 0.5, 0},
		{"the highest", runsOf(0, 0, 0, 5), 0.99, 5},
		{"median", runsOf(thousand...), 0.5, 500},
		{"p90", runsOf(thousand...), 0.9, 900},
		{"p99", runsOf(thousand...), 0.99, 990},
	} {
		got, ok := test.runs.Quantile(test.p)
		if !ok || math.Abs(got-test.want) > test.want/8 || test.want < 4 && got != test.want {
			t.Errorf("%s: got %v, %v, want %v", test.name, got, ok, test.want)
		}
	}
	if _, ok := new(Runs).Quantile(0.5); ok {
		t.Error("no runs have a median")
	}
}

func TestHistogram(t *testing.T) {
	want := []Bucket{{3, 3, 2}, {4, 7, 0}, {8, 9, 3}}
	if got := runsOf(3, 8, 9, 3, 9).Histogram(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := new(Runs).Histogram(); got != nil {
		t.Errorf("no runs are %v", got)
	}
}

func TestSub(t *testing.T) {
	r := runsOf(1, 2, 1000)
	r.Sub(runsOf(1, 1000))
	if got, _ := r.Quantile(0.5); r.Counted != 1 || r.Ranged || got != 2 {
		t.Errorf("got %d runs with the median %v, range known: %v", r.Counted, got, r.Ranged)
	}
}
