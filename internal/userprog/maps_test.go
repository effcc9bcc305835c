package userprog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSort(t *testing.T) {
	m := Map{Keys: 1, Rows: []Row{{"a", "x", uint64(1)}, {"c", "x", uint64(2)}, {"b", "x", uint64(2)}}}
	m.sort()
	if diff := cmp.Diff([]Row{{"b", "x", uint64(2)}, {"c", "x", uint64(2)}, {"a", "x", uint64(1)}}, m.Rows); diff != "" {
		t.Error(diff)
	}
}
