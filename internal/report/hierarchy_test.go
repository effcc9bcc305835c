package report

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/golden"
)

// TestHierarchy writes tables by levels. internal/cli compares such tables with perf's.
func TestHierarchy(t *testing.T) {
	none := CallGraph{}
	var got bytes.Buffer
	for _, o := range []Options{
		{CallGraph: none},
		{Children: true, CallGraph: defaultCallGraph(), Sort: []string{"dso", "symbol"}},
		{CallGraph: none, Sort: []string{"symbol"}},
		{CallGraph: none, Limit: 25, Samples: true, Period: true},
		{CallGraph: none, Filter: Filter{Comms: []string{"server"}, DSOs: []string{"server"}}},
		{CallGraph: none, Sort: []string{"tid", "cpu", "symbol"}, Separator: ",", NoHeads: true},
		{CallGraph: none, Sort: []string{"time", "comm", "parent"}, NoHeads: true},
		{CallGraph: none, Fields: []string{"comm", "overhead", "dso"}},
	} {
		o.Hierarchy = true
		keys, err := o.NeededKeys()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "# %s children %t limit %g\n", o.Sort, o.Children, o.Limit)
		if err := Text(&got, mixed(keys, 1, nasty...), &o); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "hierarchy.txt"), got.String())
}

// TestHierarchySums checks that the shares below a row add up to its own.
func TestHierarchySums(t *testing.T) {
	o := Options{Hierarchy: true, NoHeads: true, Sort: []string{"dso", "comm", "symbol"}}
	keys, err := o.NeededKeys()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := Text(&got, load(t, keys), &o); err != nil {
		t.Fatal(err)
	}
	var sums [3]float64 // by level: of the rows below the next row of the level above
	first, _, _ := strings.Cut(got.String(), "\n\n")
	for _, line := range slices.Backward(strings.Split(first, "\n")) {
		var share float64
		if _, err := fmt.Sscanf(line, "%f%%", &share); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		level := (strings.Index(line, "%") - len("  100.00")) / levelIndent
		if level < 2 {
			if math.Abs(share-sums[level+1]) > 0.3 { // each row is rounded
				t.Errorf("the shares below %q add up to %.2f", line, sums[level+1])
			}
			sums[level+1] = 0
		}
		sums[level] += share
	}
	if math.Abs(sums[0]-100) > 0.3 {
		t.Errorf("all shares add up to %.2f", sums[0])
	}
}
