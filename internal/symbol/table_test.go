package symbol

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func tableOf(symbols []Symbol) *Table {
	var b Builder
	for _, s := range symbols {
		b.Add(s, []byte(s.Name))
	}
	return b.Table()
}

func TestFind(t *testing.T) {
	table := tableOf([]Symbol{
		{Name: "last", Start: 0x5010},
		{Name: "sized", Start: 0x1000, End: 0x1010},
		{Name: "unsized", Start: 0x1020},
		{Name: "next", Start: 0x1030, End: 0x1031},
		{Name: "outer", Start: 0x2000, End: 0x2100},
		{Name: "inner", Start: 0x2010, End: 0x2020},
		{Name: "innermost", Start: 0x2018, End: 0x201c},
		{Name: "overlapping", Start: 0x20f0, End: 0x2200},
	})
	for _, test := range []struct {
		addr uint64
		want string
	}{
		{0, ""},
		{0xfff, ""},
		{0x1000, "sized"},
		{0x100f, "sized"},
		{0x1010, ""},
		{0x1020, "unsized"},
		{0x102f, "unsized"},
		{0x1030, "next"},
		{0x1031, ""},
		{0x200f, "outer"},
		{0x2010, "inner"},
		{0x2018, "innermost"},
		{0x201c, "inner"},
		{0x2020, "outer"},
		{0x20ef, "outer"},
		{0x20f0, "overlapping"},
		{0x21ff, "overlapping"},
		{0x2200, ""},
		{0x5010, "last"},
		{0x6fff, "last"}, // perf: up to the end of the page after
		{0x7000, ""},
		{^uint64(0), ""},
	} {
		got := ""
		if s, ok := table.Find(test.addr); ok {
			got = s.Name
		}
		if got != test.want {
			t.Errorf("at %#x: %q, want %q", test.addr, got, test.want)
		}
	}
}

func TestFindInNothing(t *testing.T) {
	if s, ok := tableOf(nil).Find(1); ok {
		t.Errorf("an empty table has %v", s)
	}
}

func TestAliases(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b Symbol
	}{
		{"not weak", Symbol{Name: "__x", Binding: Local}, Symbol{Name: "x", Binding: Weak}},
		{"global", Symbol{Name: "__x", Binding: Global}, Symbol{Name: "x", Binding: Local}},
		{"fewer underscores", Symbol{Name: "_x"}, Symbol{Name: "__xyz"}},
		{"the longer name", Symbol{Name: "open64"}, Symbol{Name: "open"}},
		{"the longer name, demangled", Symbol{Name: "_ZN1a4longEv"}, Symbol{Name: "_ZN1a1bEiiiiiii"}},
		{"fewer underscores, demangled", Symbol{Name: "_ZN1a4longEv"}, Symbol{Name: "_a_function_of_c"}},
		{"no alias of a system call", Symbol{Name: "sys_x"}, Symbol{Name: "SyS_x"}},
	} {
		test.a.End, test.b.End = 1, 1
		for _, both := range [][]Symbol{{test.a, test.b}, {test.b, test.a}} {
			if got, _ := tableOf(both).Find(0); got.Name != test.a.Name {
				t.Errorf("%s: kept %s, want %s", test.name, got.Name, test.a.Name)
			}
		}
	}
}

// TestAliasOfNoSize has an alias without a size. perf sets its end to the next symbol before it compares aliases, so the alias has a size
// if it was added last.
func TestAliasOfNoSize(t *testing.T) {
	sized, unsized := Symbol{Name: "short", Start: 4, End: 6}, Symbol{Name: "longer", Start: 4}
	for _, test := range []struct {
		symbols []Symbol
		want    Symbol
	}{
		{[]Symbol{unsized, sized, {Start: 8}}, sized},
		{[]Symbol{sized, unsized, {Start: 8}}, Symbol{Name: "longer", Start: 4, End: 8}},
	} {
		if got, _ := tableOf(test.symbols).Find(4); got != test.want {
			t.Errorf("kept %+v, want %+v", got, test.want)
		}
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	table := tableOf([]Symbol{{Name: "a", Start: 1, End: 10}, {Name: "b", Start: 2, End: 3}})
	if n := testing.AllocsPerRun(100, func() { table.Find(5) }); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
}

// TestManyNested nests 100,000 symbols. Find must not visit each of them for an address after the inner ones.
func TestManyNested(t *testing.T) {
	const n = 100_000
	symbols := make([]Symbol, n)
	for i := range symbols {
		symbols[i] = Symbol{Start: uint64(i), End: uint64(2*n - i)}
	}
	table := tableOf(symbols)
	if got, ok := table.Find(n); !ok || got.Start != n-1 {
		t.Errorf("the innermost is %v, want the one at %d", got, n-1)
	}
	steps := 0
	for i := int32(n - 1); i >= 0; i = table.within[i] {
		steps++
	}
	if steps > maxNesting+1 {
		t.Errorf("%d steps outwards, want at most %d", steps, maxNesting+1)
	}
}

// TestLongAlias has a symbol with a long name and many aliases. The name must be copied only once.
func TestLongAlias(t *testing.T) {
	const aliases, long = 1000, 1 << 20
	var b Builder
	b.Add(Symbol{Start: 16, End: 32, Binding: Global}, bytes.Repeat([]byte("a"), long))
	for range aliases {
		b.Add(Symbol{Start: 16, End: 32, Binding: Global}, []byte("b"))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	table := b.Table()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8*long {
		t.Errorf("%d bytes are allocated", n)
	}
	if s, ok := table.Find(16); !ok || len(s.Name) != long {
		t.Errorf("the symbol's name has %d bytes", len(s.Name))
	}
}

// TestSortedByStart compares the order of entries with that of a sort by comparison.
func TestSortedByStart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		first, span uint64
		n           int
	}{
		{0, 1, 10}, {0, 100, 1000}, {0x400000, 1 << 24, 5000}, {1 << 63, 1 << 40, 1000}, {0, math.MaxUint64, 1000}, {7, 1, 1}, {0, 1, 0},
	} {
		all := make([]entry, test.n)
		for i := range all {
			all[i] = entry{start: test.first + random.Uint64N(test.span), name: uint32(i)}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
		if got := sortedByStart(slices.Clone(all)); !slices.Equal(got, want) {
			t.Errorf("%d entries of %d addresses are not sorted", test.n, test.span)
		}
		if got := sortedByStart(slices.Clone(want)); !slices.Equal(got, want) {
			t.Errorf("%d sorted entries of %d addresses are not sorted", test.n, test.span)
		}
	}
}
