package event

import "testing"

// TestSamplingModifiers finds what S, P, G and H mean for sampling.
func TestSamplingModifiers(t *testing.T) {
	for input, want := range map[string][3]bool{ // ReadGroup, MostPrecise, Guests
		"cpu-clock":                 {},
		"cpu-clock:S":               {true, false, false},
		"cpu-clock:P":               {false, true, false},
		"cpu-clock:GH":              {false, false, true},
		"cpu-clock:G":               {},
		"{cpu-clock,page-faults}:S": {true, false, false},
	} {
		list, err := NewMachine(nil, nil).Parse(input)
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		for _, e := range list.Events() {
			if got := [3]bool{e.ReadGroup, e.MostPrecise, e.Guests}; got != want {
				t.Errorf("%s: %s: reads its group, most precise, guests: %v; want %v", input, e.Name, got, want)
			}
		}
	}
}
