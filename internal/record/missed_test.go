package record

import "testing"

func TestMissed(t *testing.T) {
	for _, tt := range []struct {
		samples, value uint64
		own            OwnCount
		want           uint64
		exact          bool
	}{
		{100, 1000, OwnCount{1000, 2, 10}, 0, false},
		{100, 1000, OwnCount{1019, 2, 10}, 0, false}, // incomplete periods
		{100, 1000, OwnCount{1050, 2, 10}, 3, false}, // minus one incomplete period per scope
		{100, 1000, OwnCount{1050, 2, 0}, 3, false},  // a varying period: the mean
		{100, 1000, OwnCount{900, 2, 10}, 0, false},  // samples came after the count was read
		{100, 100, OwnCount{103, 2, 1}, 3, true},
		{0, 0, OwnCount{1000, 2, 1}, 1000, true},
		{0, 0, OwnCount{1000, 2, 10}, 98, false},
		{0, 0, OwnCount{1000, 2, 0}, 0, false}, // nothing to compare with
		{1 << 40, 1 << 60, OwnCount{1<<60 + 1<<50, 1, 1 << 20}, 1<<30 - 1, false},
	} {
		if got, exact := tt.own.Missed(tt.samples, tt.value); got != tt.want || exact != tt.exact {
			t.Errorf("%+v: %d, %v", tt, got, exact)
		}
	}
}
