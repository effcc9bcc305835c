package event

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/golden"
)

// flagNames has the flags that Parse sets.
var flagNames = []struct {
	flag perfdata.AttrFlags
	name string
}{
	{perfdata.AttrPinned, "pinned"}, {perfdata.AttrExclusive, "exclusive"},
	{perfdata.AttrExcludeUser, "!user"}, {perfdata.AttrExcludeKernel, "!kernel"}, {perfdata.AttrExcludeHV, "!hv"},
	{perfdata.AttrExcludeIdle, "!idle"}, {perfdata.AttrFreq, "freq"},
	{perfdata.AttrPreciseIP1, "precise+1"}, {perfdata.AttrPreciseIP2, "precise+2"},
	{perfdata.AttrExcludeHost, "!host"}, {perfdata.AttrExcludeGuest, "!guest"},
}

// formatEvent returns an event on one line: name, PMU, type/config, and all other fields that are not zero.
func formatEvent(e *Event) string {
	a := e.Attr
	s := fmt.Sprintf("%s @%s %d/%#x", e.Name, e.PMU, a.Type, a.Config)
	add := func(cond bool, format string, args ...any) {
		if cond {
			s += " " + fmt.Sprintf(format, args...)
		}
	}
	add(a.Config1 != 0, "config1=%#x", a.Config1)
	add(a.Config2 != 0, "config2=%#x", a.Config2)
	add(a.Config3 != 0, "config3=%#x", a.Config3)
	add(a.Config4 != 0, "config4=%#x", a.Config4)
	add(a.BPType != 0, "bp=%d", a.BPType)
	add(a.SamplePeriod != 0, "sample=%d", a.SamplePeriod)
	for _, f := range flagNames {
		add(a.Has(f.flag), "%s", f.name)
		a.Flags &^= f.flag
	}
	add(a.Flags != 0, "flags=%#x", a.Flags)
	add(e.Tool != ToolNone, "tool=%d", e.Tool)
	add(e.CPUs != nil, "cpus=%s", strings.Trim(strings.ReplaceAll(fmt.Sprint(e.CPUs), " ", ","), "[]"))
	add(e.Uncore, "uncore")
	add(e.Scale != 1, "×%g", e.Scale)
	add(e.Unit != "", "%s", e.Unit)
	add(e.Snapshot, "snapshot")
	add(e.PerPkg, "per-pkg")
	add(e.BPF, "bpf")
	return s
}

// formatList returns a line for each event of a list: its term, and braces around groups of several.
func formatList(l List) []string {
	var lines []string
	for _, g := range l {
		for i, e := range g.Events {
			line := fmt.Sprintf("%d ", e.Term)
			if len(g.Events) > 1 && i == 0 {
				line += "{"
			}
			line += formatEvent(e)
			if len(g.Events) > 1 && i == len(g.Events)-1 {
				line += "}"
			}
			if g.Weak && i == len(g.Events)-1 {
				line += " weak"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// TestParse runs the files NAME.parse in testdata on the machines of their names. Each is a list of
// stanzas: "> " and an input as -e has it ("> " again for another -e, \n and \t for what they mean), and
// the events or the error below it.
func TestParse(t *testing.T) {
	for _, machine := range []string{"hybrid", "amd", "arm64", "arm64-one"} {
		t.Run(machine, func(t *testing.T) {
			file := filepath.Join("testdata", machine+".parse")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for stanza := range strings.SplitSeq(string(data), "\n\n") {
				inputs := stanzaInputs(stanza)
				fmt.Fprintf(&got, "%s\n\n", runStanza(fake(t, machine), inputs))
			}
			result := strings.TrimRight(got.String(), "\n") + "\n"
			golden.Compare(t, file, result)
		})
	}
}

func stanzaInputs(stanza string) []string {
	var inputs []string
	for line := range strings.Lines(stanza) {
		if input, ok := strings.CutPrefix(line, "> "); ok {
			inputs = append(inputs, strings.TrimSuffix(input, "\n"))
		}
	}
	return inputs
}

func runStanza(m *Machine, inputs []string) string {
	var lines, raw []string
	for _, input := range inputs {
		lines = append(lines, "> "+input)
		raw = append(raw, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(input))
	}
	list, err := m.parseAll(raw)
	if err != nil {
		lines = append(lines, err.Error())
	}
	return strings.Join(append(lines, formatList(list)...), "\n")
}

// TestOnlyCore limits events to one of two kinds of cores.
func TestOnlyCore(t *testing.T) {
	for _, name := range []string{"atom", "cpu_atom"} {
		m := fake(t, "hybrid")
		if err := m.OnlyCore(name); err != nil {
			t.Fatal(err)
		}
		list, err := m.Parse("cycles,L1-dcache-loads,r1,mem-loads,cpu_core/cycles/,faults")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list.Events() {
			got = append(got, e.PMU+" "+e.Name)
		}
		want := []string{"cpu_atom cpu_atom/cycles/", "cpu_atom cpu_atom/L1-dcache-loads/", "cpu_atom cpu_atom/r1/", "cpu_atom mem-loads",
			"cpu_core cpu_core/cycles/", "software faults"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for machine, want := range map[string]string{
		"hybrid": `no core PMU is named "big": this machine has cpu_core and cpu_atom`,
		"amd":    `no core PMU is named "big": this machine has cpu`,
	} {
		if err := fake(t, machine).OnlyCore("big"); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", machine, err, want)
		}
	}
}
