package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestEachFieldLoads checks that the verifier accepts a program for each field. On older kernels, fields that exist only in the kernel's
// samples cause an error that says so.
func TestEachFieldLoads(t *testing.T) {
	require.Root(t)
	_, inside := findSamples()
	if inside != nil {
		t.Log(inside)
	}
	var pace require.Pace
	for _, field := range fields {
		expr := field.name + " > 0x123456789a || " + field.name + " & 6"
		switch field.name {
		case "cgroup":
			expr = "cgroup == 1 || cgroup != /"
		case "bpf_prog":
			continue // package record tests it
		}
		p, err := parse(t, expr).Load(nil, nil)
		if inside != nil && field.source == sourceData && field.older == noSource {
			if err == nil || !strings.Contains(err.Error(), field.name+" is in the kernel's own samples, which programs see from Linux 6.2 on") {
				t.Errorf("%s: %v, want it to name the kernel that is needed", expr, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if c, err := p.Counts(); c != (Counts{}) || err != nil {
			t.Errorf("%s: %+v, %v before it ran", expr, c, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		pace.Closed(t)
	}
}

// TestLongLoads loads the longest expression and a deeply nested one.
func TestLongLoads(t *testing.T) {
	require.Root(t)
	var terms []string
	for i := range mostTerms {
		terms = append(terms, fmt.Sprintf("ip != %#x", 0xffffffff81000000+uint64(i)))
	}
	deep := "cpu == 1"
	for i := range 90 {
		deep = fmt.Sprintf("!(%s || (cpu > %d && uid < %d))", deep, i, i)
	}
	for _, expr := range []string{strings.Join(terms, ","), strings.Join(terms, "||"), deep} {
		p, err := parse(t, expr).Load(nil, nil)
		if err != nil {
			t.Errorf("%.30s…: %v", expr, err)
			continue
		}
		p.Close()
	}
}

// TestNamesThatAreNot checks the errors for names that do not exist.
func TestNamesThatAreNot(t *testing.T) {
	require.Root(t)
	if _, err := parse(t, "cpu == 0 && bpf_prog == nobody_is_called_so").Load(nil, nil); err == nil || !strings.Contains(err.Error(), "nobody_is_called_so") {
		t.Errorf("a program that is none: %v", err)
	}
	if _, err := parse(t, "cpu == 0 || !cgroup == /no/such/cgroup").Load(nil, nil); err == nil || !strings.Contains(err.Error(), "no cgroup \"/no/such/cgroup\"") {
		t.Errorf("a cgroup that is none: %v", err)
	}
}
