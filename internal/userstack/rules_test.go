package userstack

import (
	"fmt"
	"testing"

	"github.com/bperf/bperf/internal/symbol/unwind"
)

// madeFile returns a mapped file. Its rules differ from those of files with other numbers.
func (t *Tables) madeFile(number, rules int) *file {
	table := &unwind.Table{Rules: make([]unwind.Rule, 1)}
	for n := range rules {
		table.Rules = append(table.Rules, unwind.Rule{CFA: unwind.AtSP, CFAOffset: int32(number*1000 + n), RA: unwind.AtCFA, RAOffset: -8})
		table.Rows = append(table.Rows, unwind.TableRow{Offset: uint32(16 * n), Rule: uint32(n + 1)})
	}
	f := &file{id: fileID{name: fmt.Sprint(number)}, table: table, rows: uint32(rules), needed: true}
	t.files[f.id] = f
	f.use()
	return f
}

// TestRules has tables that share rules.
func TestRules(t *testing.T) {
	a, b, c := unwind.Rule{CFAOffset: 1}, unwind.Rule{CFAOffset: 2}, unwind.Rule{CFAOffset: 3}
	r := newRules(3)
	if r.fit([]unwind.Rule{{}, a, b, c}) || !r.fit([]unwind.Rule{{}, a, b}) {
		t.Error("there is room for two rules and the zero Rule")
	}
	first, changed := r.take([]unwind.Rule{{}, a, b})
	if fmt.Sprint(first, changed) != "[0 1 2] [1 2]" {
		t.Errorf("numbers %d, changed %d", first, changed)
	}
	second, changed := r.take([]unwind.Rule{{}, b})
	if fmt.Sprint(second, changed) != "[0 2] []" {
		t.Errorf("of the second table: numbers %d, changed %d", second, changed)
	}
	r.give(first)
	if r.fit([]unwind.Rule{a, c}) || !r.fit([]unwind.Rule{{}, b, c}) {
		t.Error("the rule that the second table has is still there")
	}
	third, changed := r.take([]unwind.Rule{{}, c})
	if fmt.Sprint(third, changed) != "[0 1] [1]" {
		t.Errorf("of the third table: numbers %d, changed %d", third, changed)
	}
	r.give(second)
	r.give(third)
	if len(r.numbers) != 1 || !r.fit([]unwind.Rule{a, b}) {
		t.Errorf("left: %v", r.numbers)
	}
}

// TestRulesComeAndGo has one file after the other. Together they have more rules than there is room for, but each gets a table with its own
// rules.
func TestRulesComeAndGo(t *testing.T) {
	const each = 20
	tables := newTables(t, Limits{Processes: 8, Mappings: 8, Tables: 64, Rules: 3 * each, Rows: 1000, Files: 1 << 20})
	for n := range 50 {
		f := tables.madeFile(n, each)
		if err := tables.loadFile(f); err != nil {
			t.Fatal(err)
		}
		if err := tables.publish(); err != nil {
			t.Fatal(err)
		}
		if f.loaded == nil || len(f.rules) != each+1 {
			t.Fatalf("file %d: there is no table", n)
		}
		for i, number := range f.rules[1:] {
			var rule ruleEntry
			if err := tables.maps.rules.Lookup(number, &rule); err != nil || rule.CFAOffset != int32(n*1000+i) {
				t.Fatalf("file %d: rule %d is %+v, %v", n, i, rule, err)
			}
		}
		tables.release(f)
	}
	if s := tables.Stats(); s.String() != "" || s.Rules > 3*each {
		t.Errorf("%+v", s)
	}
	if err := tables.dropUnused(len(tables.unused)); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Rules != 1 || s.Rows != 0 || s.Tables != 0 {
		t.Errorf("without files: %+v", s)
	}
}

// TestDropBeforePublish drops a table that is not published yet.
func TestDropBeforePublish(t *testing.T) {
	tables := newTables(t, Limits{Processes: 8, Mappings: 8, Tables: 8, Rules: 64, Rows: 30, Files: 1 << 20})
	for n := range 3 {
		f := tables.madeFile(n, 20)
		if err := tables.loadFile(f); err != nil {
			t.Fatal(err)
		}
		tables.release(f)
	}
	if err := tables.Update(0); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Tables != 1 || s.Rows != 20 || s.String() != "" {
		t.Errorf("%+v", s)
	}
}
