package metric

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testFacts are those of a machine with SMT that has the events A and B.
func testFacts() *Facts {
	return &Facts{
		Literals: map[string]float64{"smt_on": 1, "core_wide": 0, "num_cpus_online": 8, "slots": 8},
		HasEvent: func(name string) bool { return name == "A" || name == "B" },
		IsCPU:    func(id string) bool { return id == "0x410fd490" },
	}
}

// testValues returns the counts of events: A is 6, B is 4, Z is 0. Others are missing.
func testValues() Values {
	counts := map[string]float64{"A": 6, "B": 4, "Z": 0, "cpu/A,cmask=1/": 3, "A-B": 7, "1_PORT.X:u": 9, "duration_time": 2}
	return Values{
		Count: func(name string) float64 {
			if v, ok := counts[name]; ok {
				return v
			}
			return nan
		},
		Sources: func(name string) float64 { return map[string]float64{"A": 12}[name] },
	}
}

func TestEval(t *testing.T) {
	for expression, want := range map[string]float64{
		"1":                               1,
		"1e-3 + .5 + 2.":                  2.501,
		"1e3":                             1000,
		"A + B * 2":                       14,
		"(A + B) * 2":                     20,
		"A - B - 1":                       1,
		"A / B / 3":                       0.5,
		"-A + --B":                        -2,
		"A - -B":                          10,
		"2 * -A":                          -12,
		"A % B":                           2,
		"7.9 % 4.9":                       3,
		"A / Z":                           nan,
		"A % Z":                           nan,
		"A / 0":                           nan,
		"0 / 0":                           nan,
		"d_ratio(A, B)":                   1.5,
		"d_ratio(A, Z)":                   0,
		"d_ratio(A, missing)":             nan,
		"min(A, B) + max(A, B)":           10,
		"max(A, missing)":                 nan,
		"min(A if Z else B, 100)":         4,
		"A > B":                           1,
		"A < B":                           0,
		"A > B > 0":                       1,
		"A < B + 3":                       1,
		"A & B":                           1,
		"A & Z":                           0,
		"Z & missing":                     0,
		"A & missing":                     nan,
		"A | missing":                     1,
		"Z | missing":                     nan,
		"Z | Z":                           0,
		"A ^ B":                           2,
		"1 | 1 ^ 1":                       1,
		"0 & 1 | 1":                       1,
		"A > 5 & B > 5":                   0,
		"A if B > 5 else Z if Z else 3":   3,
		"A if missing else B":             nan,
		"missing if Z else B":             4,
		"(1 if Z else 2) + 1":             3,
		"1 + 1 if Z else 2 + 2":           4,
		"cpu@A\\,cmask\\=1@":              3,
		"cpu@A\\,cmask=1@":                3,
		"A\\-B":                           7,
		"1_PORT.X:u":                      9,
		"#SMT_on":                         1,
		"#smt_on + #num_cpus_online":      9,
		"#nosuch":                         nan,
		"has_event(A) + has_event(C)":     1,
		"source_count(A)":                 12,
		"strcmp_cpuid_str(0x410fd490)":    1,
		"strcmp_cpuid_str(0x410fd493) ^1": 1,
		"A * 1e9 / duration_time":         3e9,
		"NaN":                             nan,
		"missing - missing":               nan,
	} {
		e, err := Parse(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for name, e := range map[string]*Expr{"": e, "simplified ": e.Simplify(testFacts())} {
			if got := e.Eval(testFacts(), testValues()); !same(got, want) {
				t.Errorf("%s%s is %v, want %v", name, expression, got, want)
			}
		}
	}
}

// same reports whether two values are equal but for rounding.
func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || a == b || math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

func TestEvents(t *testing.T) {
	for expression, want := range map[string][]string{
		"A / (A + B)":                            {"A", "B"},
		"A if #SMT_on else B":                    {"A"},
		"A if #core_wide < 1 else B":             {"A"},
		"A if #smt_on & #core_wide else B":       {"B"},
		"B if has_event(A) else C":               {"B"},
		"B if has_event(C) else D":               {"D"},
		"A if C > 1 else B":                      {"A", "C", "B"},
		"1 if C > 1 else 1":                      nil,
		"A & #core_wide":                         nil,
		"1 | A":                                  nil,
		"A / 0":                                  nil,
		"A * 0":                                  {"A"}, // as in perf
		"source_count(A) * #num_cpus_online":     {"A"},
		"uncore@X\\,thresh\\=1@ / duration_time": {"uncore/X,thresh=1/", "duration_time"},
		"min(A, max(B, C))":                      {"A", "B", "C"},
	} {
		e, err := Parse(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if diff := cmp.Diff(want, e.Simplify(testFacts()).Events()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", expression, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("(", 500)
	for expression, want := range map[string]string{
		"":                         "metric expression: expected a number, an event, or a parenthesis at its end",
		"A +":                      "metric expression: expected a number, an event, or a parenthesis at its end",
		"A B":                      `metric expression: expected an operator or the end at "B"`,
		"(A":                       `metric expression: expected ")" at its end`,
		"A if B":                   `metric expression: expected "else" at its end`,
		"A if B if C else D":       `metric expression: expected "else" at "if C else D"`,
		"min(A)":                   `metric expression: expected "," at ")"`,
		"min A":                    `metric expression: expected "(" at "A"`,
		"has_event(1 + 1)":         `metric expression: has_event needs a name at "1 + 1)"`,
		"else":                     `metric expression: expected a number, an event, or a parenthesis at "else"`,
		"A $ B":                    `metric expression: an unexpected character at "$ B"`,
		"#":                        `metric expression: # without the name of a literal at "#"`,
		"A\\":                      `metric expression: a backslash without a character behind it at "\\"`,
		"1e999":                    `metric expression: a number that is too large at "1e999"`,
		deep:                       `metric expression: more than 200 levels of parentheses at "((((((((((((((((((((((((((((((((((((((((…"`,
		strings.Repeat("-", 500):   `metric expression: more than 200 levels of parentheses at "----------------------------------------…"`,
		strings.Repeat(" ", 65537): "metric expression of 65537 bytes: bperf accepts at most 65536",
	} {
		_, err := Parse(expression)
		if err == nil || err.Error() != want {
			t.Errorf("%.50q: got error %v, want %s", expression, err, want)
		}
	}
}

// FuzzParse checks that no expression crashes the parser, and that simplifying an expression keeps its value, if it has one, and adds no
// events.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"A if #smt_on else B", "cpu@A\\,cmask\\=1@ / 1e-9", "max(0, -d_ratio(A, B)) ^ 3 % 2", "has_event(A) & A > 2 | NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		facts, values := testFacts(), testValues()
		simple := e.Simplify(facts)
		if a, b := e.Eval(facts, values), simple.Eval(facts, values); !math.IsNaN(a) && !same(a, b) {
			t.Errorf("%q is %v, and simplified %v", s, a, b)
		}
		all := e.Events()
		for _, name := range simple.Events() {
			if !slices.Contains(all, name) {
				t.Errorf("%q: simplified, it needs %s", s, name)
			}
		}
	})
}
