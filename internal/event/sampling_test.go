package event

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

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

func TestSamplingTerms(t *testing.T) {
	for input, want := range map[string]Sampling{
		"cpu-clock/call-graph=no/":                                   {CallGraph: "no"},
		"cpu-clock/call-graph=dwarf,stack-size=1001/u":               {CallGraph: "dwarf", StackSize: 1008},
		"cpu-clock/max-stack=0xffff,time/":                           {MaxStack: 0xffff, Time: new(true)},
		"bpf-output/no-inherit=1,name=evt/":                          {Inherit: new(false)},
		"bpf-output/no-inherit,time=0/":                              {Inherit: new(false), Time: new(false)},
		"cpu-clock/inherit=0/":                                       {Inherit: new(false)},
		"cpu-clock/no-inherit=0/":                                    {Inherit: new(true)},
		"cpu-clock/branch_type=any_call/":                            {Branches: perfdata.BranchAnyCall},
		`cpu-clock/branch_type="u,save_type",name=x/`:                {Branches: perfdata.BranchUser | perfdata.BranchTypeSave | perfdata.BranchAny},
		"cpu-clock/period=7,name='a,b',freq=8,call-graph=fp,time=1/": {CallGraph: "fp", Time: new(true)},
	} {
		list, err := NewMachine(nil, nil).Parse(input)
		if err != nil {
			t.Errorf("%s: %v", input, err)
		} else if got := list.Events()[0].Sampling; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", input, got, want)
		}
	}
	for input, want := range map[string]string{
		"cpu-clock/call-graph=orc/":   "call-graph is one of no, fp, bpf, dwarf, lbr",
		"cpu-clock/call-graph/":       "call-graph is one of",
		"cpu-clock/stack-size=0/":     "stack-size is a number from 1 to 65528",
		"cpu-clock/max-stack=65536/":  "max-stack is a number from 1 to 65535",
		"cpu-clock/max-stack/":        "max-stack needs a value",
		"cpu-clock/time=2/":           "time is a number from 0 to 1",
		"cpu-clock/branch_type=some/": `there is no kind of branch "some"`,
		"cpu-clock/overwrite/":        "choose with record --overwrite",
		"cpu-clock/inherits/":         "has no term inherits",
	} {
		if _, err := NewMachine(nil, nil).Parse(input); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", input, err, want)
		}
	}
}

// TestPerCore parses the term percore.
func TestPerCore(t *testing.T) {
	for input, want := range map[string]bool{"cpu-clock/percore/": true, "cpu-clock/percore=1/": true, "cpu-clock/percore=0/": false, "cpu-clock": false} {
		list, err := Host().Parse(input)
		if err != nil || list.Events()[0].PerCore != want {
			t.Errorf("%s: %v, %v", input, list, err)
		}
	}
	if _, err := Host().Parse("cpu-clock/percore=2/"); err == nil || !strings.Contains(err.Error(), "percore is a number from 0 to 1") {
		t.Errorf("percore=2: %v", err)
	}
}
