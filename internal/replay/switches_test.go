package replay

import (
	"testing"

	"github.com/bperf/bperf/perfdata"
)

// TestSwitches passes samples of the events a to d; b switches on, and c off. A capital letter is a sample that is kept.
func TestSwitches(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Switches
		want string
	}{
		{"none", Switches{}, "ABCABBACCADCBA"},
		{"on", Switches{On: "b"}, "abCABBACCADCBA"},
		{"off", Switches{Off: "c"}, "ABcabbaccadcba"},
		{"both", Switches{On: "b", Off: "c"}, "abcabBAccadcbA"},
		{"shown", Switches{On: "b", Off: "c", Show: true}, "aBCaBBACcadcBA"},
		{"only on is shown", Switches{On: "b", Show: true}, "aBCABBACCADCBA"},
		{"the same", Switches{On: "b", Off: "b"}, "abCAbbACCADCba"},
	} {
		on, got := tt.s.On == "", []byte(tt.want)
		for i, letter := range got {
			event := letter | 0x20
			got[i] = event
			if tt.s.keeps(&perfdata.Event{Name: string(event)}, &on) {
				got[i] -= 0x20
			}
		}
		if string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if on := false; (&Switches{On: "a"}).keeps(nil, &on) {
		t.Error("a sample of an unknown event is kept")
	}
}
