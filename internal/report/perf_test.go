package report

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
)

// load is the recording of testdata/perf.
func load(t testing.TB, keep profile.Keys) *profile.Profile {
	t.Helper()
	file, err := os.Open("testdata/perf/load.script.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return readScript(t, string(text), keep,
		profile.Event{Name: "cpu-clock/period=500000/", Unit: "ns"},
		profile.Event{Name: "page-faults/period=200/"}, profile.Event{Name: "minor-faults/period=1000/", Leader: 2})
}

func callGraph(t testing.TB, text string) CallGraph {
	t.Helper()
	g, err := ParseCallGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPerf compares tables and call trees, character by character, with perf's output for the same recording.
func TestPerf(t *testing.T) {
	none, graph := CallGraph{}, defaultCallGraph()
	tests := []struct {
		name string
		Options
	}{
		{"none", Options{CallGraph: none}},
		{"children-none", Options{Children: true, CallGraph: none}},
		{"children", Options{Children: true, CallGraph: graph}},
		{"callee", Options{CallGraph: graph}},
		{"caller", Options{CallGraph: callGraph(t, "graph,0.5,caller")}},
		{"children-callee", Options{Children: true, CallGraph: callGraph(t, "graph,0.5,callee")}},
		{"fractal", Options{CallGraph: callGraph(t, "fractal,3,callee")}},
		{"flat", Options{CallGraph: callGraph(t, "flat,2")}},
		{"folded", Options{CallGraph: callGraph(t, "folded,2,count")}},
		{"period", Options{CallGraph: callGraph(t, "graph,5,period")}},
		{"sort", Options{CallGraph: none, Sort: []string{"dso", "comm"}, Samples: true, Period: true}},
		{"symbol", Options{CallGraph: callGraph(t, "graph,10"), Sort: []string{"sym"}}},
		{"pid", Options{CallGraph: none, Sort: []string{"pid", "dso"}}},
		{"limit", Options{Children: true, CallGraph: callGraph(t, "graph,5"), Limit: 5}},
		{"filter", Options{CallGraph: none, Filter: Filter{Comms: []string{"load"}, DSOs: []string{"[kernel.kallsyms]", "load"}}}},
		{"elided", Options{CallGraph: none, Filter: Filter{DSOs: []string{"load"}}}},
		{"fields", Options{CallGraph: none, Fields: []string{"sym", "overhead", "sample"}}},
		{"relative", Options{CallGraph: none, Filter: Filter{DSOs: []string{"load"}}, Relative: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := tt.NeededKeys()
			if err != nil {
				t.Fatal(err)
			}
			for name, keep := range map[string]profile.Keys{"needed": keys, "all": ^profile.Keys(0)} {
				var got bytes.Buffer
				if err := Text(&got, load(t, keep), &tt.Options); err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(filepath.Join("testdata", "perf", tt.name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tables(string(want)), tables(got.String())); diff != "" {
					t.Errorf("with %s keys (-perf +bperf):\n%s", name, diff)
				}
			}
		})
	}
}

// tables returns a report without the text that perf and bperf print around the tables.
func tables(text string) string {
	return strings.TrimRight(text[strings.Index(text, "# Total Lost"):], "#\n ")
}
