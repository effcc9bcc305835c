package symbol

import (
	"strings"
	"testing"
)

func TestDemangle(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"main", "main"},
		{"main.(*T).Method", "main.(*T).Method"},
		{"_start", "_start"},
		{"_ZN2ns3fooEi", "ns::foo"},
		{"_ZN2ns3fooEi.cold", "ns::foo"},
		{"_ZN2ns3fooEi@plt", "ns::foo@plt"},
		{"_ZNK2ns1AIiE1fEi", "ns::A<int>::f"},
		{"_ZdlPv@@GLIBCXX_3.4", "operator delete@@GLIBCXX_3.4"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
		{"_RNvCsgStHSCytQ6I_7mycrate4main", "mycrate::main"},
		{"_Zebra", "_Zebra"},
		{"_Report", "_Report"},
		{"", ""},
	} {
		if got := Demangle(test.name); got != test.want {
			t.Errorf("Demangle(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

// TestDemangleBounds demangles names that refer to themselves. Without limits, 60 bytes would make 2^50.
func TestDemangleBounds(t *testing.T) {
	bomb := "_Z1fI1AS_" + strings.Repeat("S0_", 30) + "E"
	name := "_ZN1a"
	for range 40 {
		name += "IS_S_E1b"
	}
	for _, name := range []string{bomb, name + "E", "_Z" + strings.Repeat("P", 1<<20), "_ZN" + strings.Repeat("1a", 8000) + "E"} {
		if got := Demangle(name); len(got) > max(1<<maxDemangled, len(name)) {
			t.Errorf("%.40q… became %d bytes", name, len(got))
		}
	}
}

func FuzzDemangle(f *testing.F) {
	for _, name := range []string{"_ZN2ns3fooEi@plt", "_RNvCsgStHSCytQ6I_7mycrate4main", "_Z1fI1AS_S0_E", "_ZN4core3fmt17h0123456789abcdefE"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got := Demangle(name); len(got) > len(name)+1<<maxDemangled {
			t.Errorf("%q became %d bytes", name, len(got))
		}
	})
}
