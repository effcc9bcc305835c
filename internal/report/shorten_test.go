package report

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestShorten checks what is left of names in narrow frames: what distinguishes them from the others.
func TestShorten(t *testing.T) {
	const method = "github.com/bperf/bperf/internal/report.(*drawing).frame"
	for _, test := range []struct {
		name    string
		letters int
		want    string
	}{
		{"main", 4, "main"},
		{"main", 3, "..n"},
		{"main", 2, ""},
		{method, len(method), method},
		{method, 30, "report.(*drawing).frame"},
		{method, 22, "(*drawing).frame"},
		{method, 10, "frame"},
		{method, 4, "..me"},
		{"github.com/a/b.Map[go.shape.int,github.com/c/d.T].Get", 10, "Get"},
		{"main.(*T).run.func1.2", 20, "(*T).run.func1.2"},
		{"main.(*T).run.func1.2", 12, "run.func1.2"},
		{"std::vector<int, std::allocator<int> >::push_back(int const&)", 40, "push_back"},
		{"std::vector<int, std::allocator<int> >::push_back(int const&)", 48, "vector<int, std::allocator<int> >::push_back"},
		{"void ns::sort<int>(int*, int*)", 15, "ns::sort<int>"},
		{"(anonymous namespace)::parse(char const*)", 12, "parse"},
		{"ns::T::operator()(int) const", 12, "operator()"},
		{"operator new(unsigned long)", 12, "operator new"},
		{"<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend", 12, "extend"},
		{"try_to_wake_up.part.0", 12, ".._up.part.0"},
		{"bpf_prog_6deef7357e7b4530_count (program 42)", 32, "bpf_prog_6deef7357e7b4530_count"},
		{"bpf_prog_6deef7357e7b4530_count (program 42)", 20, "count"},
		{"__x64_sys_epoll_wait", 12, "..epoll_wait"},
		{"ÄÖÜäöüß", 5, "..öüß"},
		{"((((((((((", 5, "..((("},
		{"a::", 2, ""},
		{"::::::::", 4, "::::"},
		{"(((", 3, "((("},
		{" (x)", 3, " "},
	} {
		l := newLabel(test.name, true)
		if got := l.within(test.letters); got != test.want {
			t.Errorf("%q in %d letters: %q, want %q", test.name, test.letters, got, test.want)
		}
	}
	l := newLabel("kworker/0:1-events (x)", false)
	if got := l.within(10); got != "..ents (x)" {
		t.Errorf("the name of a thread became %q", got)
	}
}

// FuzzShorten checks that what is left of any name fits.
func FuzzShorten(f *testing.F) {
	f.Add("a/b.c::d(e)", 3)
	f.Add(" (", 3)
	f.Fuzz(func(t *testing.T, name string, letters int) {
		l := newLabel(name, true)
		got := l.within(letters)
		if n := utf8.RuneCountInString(got); n > max(0, letters) || n == 0 && letters > 2 && name != "" {
			t.Errorf("%q in %d letters: %q", name, letters, got)
		}
		if rest := strings.TrimPrefix(got, ".."); !strings.Contains(string([]rune(name)), rest) {
			t.Errorf("%q became %q", name, got)
		}
	})
}
