package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSortEvent orders rows by one event of a group. internal/cli compares such tables with perf's.
func TestSortEvent(t *testing.T) {
	for _, tt := range []struct{ event, column int }{{0, 0}, {1, 1}, {2, 0}, {-1, 0}} { // there are no events 2 and -1
		for _, hierarchy := range []bool{false, true} {
			o := Options{NoHeads: true, Sort: []string{"dso"}, SortEvent: tt.event, Hierarchy: hierarchy}
			var got bytes.Buffer
			if err := Text(&got, load(t, 0), &o); err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(got.String(), "\n\n")
			var shares [2][]float64
			for line := range strings.Lines(first) {
				var a, b float64
				if _, err := fmt.Sscanf(line, "%f%% %f%%", &a, &b); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				shares[0], shares[1] = append(shares[0], -a), append(shares[1], -b)
			}
			if !slices.IsSorted(shares[tt.column]) || slices.IsSorted(shares[1-tt.column]) {
				t.Errorf("event %d, hierarchy %t: the rows are not in the order of column %d only:\n%s", tt.event, hierarchy, tt.column, first)
			}
		}
	}
}
