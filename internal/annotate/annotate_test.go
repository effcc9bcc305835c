package annotate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/test/golden"
)

// samples returns values of two events.
func samples(first, second uint64) []Value {
	return []Value{{Samples: first, Value: 1000 * first}, {Samples: second, Value: second}}
}

// example returns a report of two functions. One has code and lines, and names that try to forge other output; the other has no code.
func example(t *testing.T) *Report {
	t.Helper()
	disassemble, err := disasm.For("amd64")
	if err != nil {
		t.Fatal(err)
	}
	// push %rbp; mov %rsp,%rbp; call 0x2000; jmp 0x1001; pop %rbp; ret
	text := []byte{0x55, 0x48, 0x89, 0xe5, 0xe8, 0xf7, 0x0f, 0x00, 0x00, 0xeb, 0xf6, 0x5d, 0xc3}
	one := Line{"/src/<b>.c", 3, "int f(void) {"}
	two := Line{"/src/<b>.c", 4, "\treturn g(\"</script>\\n\");\n\x1b[31m"}
	h := &hits{values: samples(10, 4), at: map[uint64][]Value{
		0x10: samples(1, 0), 0x14: samples(6, 1), 0x15: samples(1, 1), 0x1c: samples(2, 2),
	}}
	f := Function{Name: "f<int>\n", Module: "/bin/a\x07", Start: 0x1000, Size: uint64(len(text)), Values: h.values}
	totals := []Value{{Value: 20_000}, {Value: 4}}
	setPercents(h.values, totals)
	withCode := newListing(f, &code{start: 0x1000, bytes: text, disassemble: disassemble,
		rows:    []row{{0x1000, one}, {0x1004, two}, {0x1006, two}, {0x100b, Line{"/src/<b>.c", 0, ""}}, {0x100c, one}},
		target:  func(addr uint64) string { return fmt.Sprintf("at %#x", addr) },
		program: &Program{12, "f", "0123456789abcdef"}},
		func(addr uint64) uint64 { return addr + 0xff0 }).with(h)
	h = &hits{values: samples(10, 0), at: map[uint64][]Value{0x30: samples(9, 0), 0x20: samples(1, 0)}}
	without := Function{Name: "gone", Module: "[kernel.kallsyms]", Start: 0x20, Size: 0x20, Values: h.values}
	setPercents(h.values, totals)
	withoutCode := newListing(without, &code{missing: "its code cannot be read"}, func(addr uint64) uint64 { return addr }).with(h)
	return &Report{Events: []Event{{"cycles", 20, 20_000}, {"faults", 4, 4}}, Functions: []*Function{withCode, withoutCode}, Nameless: 3, Others: 2}
}

func TestText(t *testing.T) {
	for name, o := range map[string]TextOptions{
		"text.txt": {}, "samples.txt": {Samples: true}, "lines.txt": {Lines: true, FullPath: true},
		"periods.txt": {Periods: true, Bytes: true}, "shares.txt": {Shares: Shares{Global: true, Hits: true}},
	} {
		var b strings.Builder
		if err := example(t).Text(&b, o); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("testdata", name), b.String())
	}
}

func TestShares(t *testing.T) {
	v, function, all := Value{Samples: 1, Value: 30}, Value{Samples: 2, Value: 40}, Event{Samples: 10, Value: 120}
	for name, want := range map[string]float64{"local-period": 75, "local-hits": 50, "global-period": 25, "global-hits": 10} {
		s, err := ParseShares(name)
		if got := s.of(v, function, all); err != nil || got != want {
			t.Errorf("%s: %g, %v; want %g", name, got, err, want)
		}
	}
	if got := (Shares{}).of(v, Value{}, all); got != 0 {
		t.Errorf("share of a function without samples: %g", got)
	}
	if _, err := ParseShares("period"); err == nil {
		t.Error(`"period" was accepted`)
	}
}

func TestMoved(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		strip  int
		want   string
	}{
		{"", 1, "/build/a/b.c"},
		{"/src", 0, "/src/build/a/b.c"},
		{"/src", 2, "/src/b.c"},
		{"/src", 9, "/src/b.c"},
	} {
		o := Options{Prefix: tt.prefix, PrefixStrip: tt.strip}
		if got := o.moved("/build/a/b.c"); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt, got, tt.want)
		}
	}
	if got := (&Options{Prefix: "/src"}).moved("a/b.c"); got != "a/b.c" {
		t.Errorf("a relative path became %s", got)
	}
}

func TestHTML(t *testing.T) {
	var b strings.Builder
	if err := example(t).HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"<b>.c", "</script>", "http:", "https:", "f<int>"} {
		if strings.Contains(b.String(), forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "page.html"), b.String())
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(example(t)); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "report.json"), b.String())
}

// TestSums checks that the shares of instructions, and those of lines, add up to those of the function.
func TestSums(t *testing.T) {
	for _, f := range example(t).Functions {
		for e := range f.Values {
			samples, percent := uint64(0), 0.0
			for _, i := range f.Instructions {
				samples += i.Values[e].Samples
				percent += i.Values[e].Percent
			}
			want := 0.0
			if f.Values[e].Value > 0 {
				want = 100
			}
			if samples != f.Values[e].Samples || math.Abs(percent-want) > 1e-9 {
				t.Errorf("%q, event %d: instructions have %d samples, %g %%; the function has %d", f.Name, e, samples, percent, f.Values[e].Samples)
			}
		}
	}
}
