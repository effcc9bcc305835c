package profile

import (
	"reflect"
	"testing"
)

// TestLossesSince splits the losses of a session into those of two intervals, and adds them up again.
func TestLossesSince(t *testing.T) {
	first := Losses{Records: 1, Samples: 2, Truncated: 3, Reasons: []Loss{{"a", 1}, {"b", 2}}}
	all := Losses{Records: 1, Samples: 12, Filtered: 4, Truncated: 5, MissedEstimate: 6, Reasons: []Loss{{"a", 1}, {"b", 5}, {"c", 7}}}
	second := all.Since(&first)
	if want := (Losses{Samples: 10, Filtered: 4, Truncated: 2, MissedEstimate: 6, Reasons: []Loss{{"b", 3}, {"c", 7}}}); !reflect.DeepEqual(second, want) {
		t.Errorf("%+v, want %+v", second, want)
	}
	sum := Losses{}
	sum.Add(&first)
	sum.Add(&second)
	if !reflect.DeepEqual(sum, all) {
		t.Errorf("together %+v, want %+v", sum, all)
	}
	if first.Reasons[1].Samples != 2 {
		t.Errorf("adding has changed the first losses: %+v", first)
	}
}
