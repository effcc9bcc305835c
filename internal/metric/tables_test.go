package metric

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/event/vendor"
)

// tables returns the metrics of all CPU models of an architecture.
func tables(t *testing.T, arch string) map[string][]vendor.Metric {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../event/vendor/tables", arch))
	if err != nil {
		t.Fatal(err)
	}
	all, err := vendor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string][]vendor.Metric)
	for model, table := range all {
		metrics[model] = slices.Collect(table.Metrics())
	}
	return metrics
}

// TestAllMetrics prepares the metrics of every model, and compares the value of each expression and threshold with what another evaluator
// computes from the same random counts.
func TestAllMetrics(t *testing.T) {
	for arch, atLeast := range map[string]int{"amd64": 5000, "arm64": 500} {
		metrics, done := 0, make(map[string]bool)
		for model, all := range tables(t, arch) {
			c := NewCatalog(all, testFacts())
			for i := range all {
				metrics++
				if _, err := c.prepare(&c.all[i], true); err != nil {
					t.Errorf("%s: %v", model, err)
				}
				for _, e := range []string{all[i].Expr, all[i].Threshold} {
					if e != "" && !done[e] {
						done[e] = true
						compareEvaluators(t, e)
					}
				}
			}
		}
		if metrics < atLeast {
			t.Errorf("%s: only %d metrics", arch, metrics)
		}
		t.Logf("%s: %d metrics, %d expressions", arch, metrics, len(done))
	}
}

// compareEvaluators computes an expression from random counts, some of which are 0 or missing.
func compareEvaluators(t *testing.T, expression string) {
	t.Helper()
	e, err := Parse(expression)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return
	}
	r := rand.New(rand.NewPCG(1, uint64(len(expression))))
	for range 3 {
		other := independent{values: make(map[string]float64), facts: testFacts()}
		for _, name := range e.Events() {
			switch r.IntN(12) {
			case 0:
				other.values[name] = 0
			case 1: // missing
			default:
				other.values[name] = float64(r.IntN(1e6))
			}
		}
		v := Values{Sources: func(string) float64 { return independentSources }, Count: func(name string) float64 {
			if v, known := other.values[name]; known {
				return v
			}
			return nan
		}}
		want := other.eval(other.words(expression))
		if got := e.Eval(testFacts(), v); !same(got, want) {
			t.Errorf("%s is %v, want %v", expression, got, want)
		}
		if got := e.Simplify(testFacts()).Eval(testFacts(), v); !same(got, want) {
			t.Errorf("%s is %v when simplified, want %v", expression, got, want)
		}
	}
}

// TestGroupsLikePerf compares the events that are counted together for metrics and groups of metrics with those of perf.
func TestGroupsLikePerf(t *testing.T) {
	text, err := os.ReadFile("testdata/groups.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := tables(t, "amd64")
	// The machine that perf ran on: without SMT.
	facts := &Facts{IsCPU: func(string) bool { return false }, HasEvent: func(string) bool { return true }, Literals: map[string]float64{
		"smt_on": 0, "core_wide": 0, "target_cpu": 0, "num_cpus_online": 2, "num_cores": 2, "num_dies": 1, "num_packages": 1, "has_pmem": 0}}
	cases := strings.Split("\n"+string(text), "\n")
	for i := 0; i < len(cases); i++ {
		words := strings.Fields(cases[i])
		if len(words) != 3 || strings.HasPrefix(cases[i], "#") {
			continue
		}
		var want []string
		for i+1 < len(cases) && strings.HasPrefix(cases[i+1], "\t") {
			i++
			want = append(want, strings.TrimSpace(cases[i]))
		}
		s, err := NewCatalog(all[words[0]], facts).Select(words[1:2], Options{NMIWatchdog: words[2] == "watchdog"})
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if diff := cmp.Diff(want, s.written()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", words, diff)
		}
	}
}

// written returns the sets in the form of testdata/groups.txt.
func (s *Selection) written() []string {
	var all []string
	for _, set := range s.Sets {
		events := slices.DeleteFunc(slices.Sorted(slices.Values(set.Events)), func(e string) bool { return e == "duration_time" })
		text := strings.Join(events, ",")
		if set.Grouped {
			text = "{" + text + "}"
		}
		if len(events) > 0 {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func TestCycles(t *testing.T) {
	all := []vendor.Metric{{Name: "a", Expr: "b + 1"}, {Name: "b", Expr: "c"}, {Name: "c", Expr: "X if a else Y"}, {Name: "d", Expr: "X", Threshold: "d > 1"}}
	c := NewCatalog(all, testFacts())
	if _, err := c.Select([]string{"a"}, Options{}); err == nil || err.Error() != "metric a refers to itself" {
		t.Errorf("got error %v", err)
	}
	if _, err := c.Select([]string{"d"}, Options{}); err != nil {
		t.Errorf("a threshold may refer to its metric: %v", err)
	}
	var chain []vendor.Metric
	for i := range 2 * maxReferences {
		chain = append(chain, vendor.Metric{Name: strings.Repeat("x", i+1), Expr: strings.Repeat("x", i+2)})
	}
	_, err := NewCatalog(chain, testFacts()).Select([]string{"x"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "more than 1000 metrics refer to one another") {
		t.Errorf("a long chain: got error %.200v", err)
	}
}

// A metric has no value if the machine does not report a literal that it or a metric that it refers to needs. A literal in a branch that is
// not computed here does not matter, nor one in a threshold.
func TestUnknownLiterals(t *testing.T) {
	all := []vendor.Metric{
		{Name: "direct", Expr: "A * #SYSTEM_TSC_FREQ / 1e9", Groups: []string{"G"}},
		{Name: "refers", Expr: "B / direct", Groups: []string{"G"}},
		{Name: "lacks", Expr: "A / C", Groups: []string{"G"}},
		{Name: "other", Expr: "A if #smt_on else #system_tsc_freq", Groups: []string{"G"}},
		{Name: "limit", Expr: "A", Threshold: "limit > #system_tsc_freq", Groups: []string{"G"}},
	}
	for name, want := range map[string]struct{ metrics, unknown, skipped []string }{
		"G":      {[]string{"other", "limit"}, []string{"direct (#system_tsc_freq)", "refers (#system_tsc_freq)"}, []string{"lacks"}},
		"direct": {nil, []string{"direct (#system_tsc_freq)"}, nil},
	} {
		s, err := NewCatalog(all, testFacts()).Select([]string{name}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var metrics, unknown []string
		for _, m := range s.Metrics {
			metrics = append(metrics, m.Name)
		}
		for _, u := range s.Unknown {
			unknown = append(unknown, u.String())
		}
		if !slices.Equal(metrics, want.metrics) || !slices.Equal(unknown, want.unknown) || !slices.Equal(s.Skipped, want.skipped) {
			t.Errorf("%s: got %v, unknown %v, skipped %v", name, metrics, unknown, s.Skipped)
		}
	}
	facts := testFacts()
	facts.Literals["system_tsc_freq"] = 2e9
	if s, err := NewCatalog(all, facts).Select([]string{"direct"}, Options{}); err != nil || len(s.Metrics) != 1 || len(s.Unknown) != 0 {
		t.Errorf("with a frequency: got %+v, %v", s, err)
	}
}

func TestConstraints(t *testing.T) {
	all := []vendor.Metric{
		{Name: "never", Expr: "A / B", Constraint: "NO_GROUP_EVENTS"},
		{Name: "nmi", Expr: "A / B", Constraint: "NO_GROUP_EVENTS_NMI"},
		{Name: "smt", Expr: "A / B", Constraint: "NO_GROUP_EVENTS_SMT"},
		{Name: "threshold", Expr: "A / B", Threshold: "threshold > C", Constraint: "NO_THRESHOLD_AND_NMI"},
		{Name: "part", Expr: "A / B", Groups: []string{"G", "H"}, NoGroup: []string{"G"}},
	}
	for _, c := range []struct {
		name    string
		options Options
		want    string
	}{
		{"never", Options{}, "A,B"},
		{"nmi", Options{}, "{A,B}"},
		{"nmi", Options{NMIWatchdog: true}, "A,B"},
		{"nmi", Options{SMT: true}, "{A,B}"},
		{"smt", Options{}, "{A,B}"},
		{"smt", Options{SMT: true}, "A,B"},
		{"threshold", Options{}, "{A,B,C}"},
		{"threshold", Options{NMIWatchdog: true}, "{A,B}"},
		{"threshold", Options{NoThreshold: true}, "{A,B}"},
		{"part", Options{}, "{A,B}"},
		{"part", Options{NoGroup: true}, "A,B"},
		{"H", Options{}, "{A,B}"},
		{"g", Options{}, "A,B"},
		{"nmi,smt", Options{}, "{A,B}"},
		{"nmi,smt", Options{NoMerge: true}, "{A,B} {A,B}"},
		{"never,nmi", Options{}, "A,B {A,B}"},
		{"never,part", Options{NoGroup: true}, "A,B"},
		{"never,part", Options{NoGroup: true, NoMerge: true}, "A,B A,B"},
		{"smt,threshold", Options{}, "{A,B,C}"},
	} {
		s, err := NewCatalog(all, testFacts()).Select(strings.Split(c.name, ","), c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.written(), " "); got != c.want {
			t.Errorf("%s %+v: got %s, want %s", c.name, c.options, got, c.want)
		}
	}
}

func TestSplitUnit(t *testing.T) {
	for unit, want := range map[string]struct {
		factor float64
		suffix string
	}{"": {1, ""}, "100%": {100, "%"}, "9.765625e-4KB": {9.765625e-4, "KB"}, "1e3per_1k_instr": {1e3, "per_1k_instr"}, "4": {4, ""}, "1e": {1, "e"}} {
		factor, suffix, err := splitUnit(unit)
		if err != nil || factor != want.factor || suffix != want.suffix {
			t.Errorf("%q: got %v %q %v", unit, factor, suffix, err)
		}
	}
	if _, _, err := splitUnit("MB"); err == nil {
		t.Error("a unit without a factor gives no error")
	}
}
