package vendor

import (
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArchive(t *testing.T) {
	first := New([]Event{
		{Name: "a.b", Terms: "event=0x1,umask=0x2", Period: 200003, Scale: 1, Errata: "HSD29, HSM30"},
		{Name: "c", PMU: "uncore_imc", Terms: "event=0x4", Scale: 64, Unit: "Bytes", PerPkg: true, Deprecated: true, Compat: "0x30"},
		{Name: "d", Terms: "event=0x1", Scale: 6.103515625e-05, Unit: "MiB/sec of it"},
	}, []Metric{
		{Name: "M", Expr: "a.b / 2", Groups: []string{"A", "B"}, NoGroup: []string{"C"}, ScaleUnit: "100%", Threshold: "M > 1", PMU: "cpu_core",
			Constraint: "NO_GROUP_EVENTS", DefaultGroup: "A", Compat: "x.*", AggregationMode: "PerCore", ShowEvents: true, PerPkg: true},
		{Name: "N", Expr: "1"},
	})
	second := New(slices.Clone(first.events[:1]), nil)
	common := New(nil, []Metric{{Name: "Z", Expr: "2"}})
	data, err := (&Models{
		CPUs:   []CPU{{"GenuineIntel-6-1[AB]", "first"}, {"GenuineIntel-6-[[:xdigit:]]+", "second"}},
		Models: []Model{{"first", "", first}, {"second", "first", second}, {"common", "", common}},
	}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	a, err := openArchive(data)
	if err != nil {
		t.Fatal(err)
	}
	for cpu, want := range map[string]*Table{
		"GenuineIntel-6-1A-0": {"first", first.events, slices.Concat(first.metrics, common.metrics)},
		"GenuineIntel-6-2A":   {"second", second.events, common.metrics},
		"AuthenticAMD-6-1A-0": {"", nil, common.metrics},
	} {
		got, err := a.table(cpu)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Table{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", cpu, diff)
		}
	}
	for name, broken := range map[string][]byte{
		"empty": nil, "without index": []byte("x\n"), "with a short frame": data[:len(data)-1], "with other lines": []byte("x y\n\n"),
	} {
		if a, err := openArchive(broken); err == nil {
			if _, err = a.table("GenuineIntel-6-2A"); err == nil {
				t.Errorf("an archive %s is read without an error", name)
			}
		}
	}
}

func TestFits(t *testing.T) {
	for _, test := range []struct {
		cpuid, pattern string
		want           bool
	}{
		{"GenuineIntel-6-8E-A", "GenuineIntel-6-(4E|5E|8E|9E|A5|A6)", true},
		{"GenuineIntel-6-8E", "GenuineIntel-6-(4E|5E|8E|9E|A5|A6)", true},
		{"GenuineIntel-6-8F-A", "GenuineIntel-6-(4E|5E|8E|9E|A5|A6)", false},
		{"GenuineIntel-6-55-4", "GenuineIntel-6-55-[01234]", true},
		{"GenuineIntel-6-55-5", "GenuineIntel-6-55-[01234]", false},
		{"GenuineIntel-6-55", "GenuineIntel-6-55-[01234]", false},
		{"GenuineIntel-6-A-55-4", "GenuineIntel-6-A", false},
		{"GenuineIntel-6-1AA-1", "GenuineIntel-6-1A", false},
		{"AuthenticAMD-23-31-0", "AuthenticAMD-23-([12][0-9A-F]|[0-9A-F])", false},
		{"AuthenticAMD-23-31-0", "AuthenticAMD-23-[[:xdigit:]]+", true},
		{"0x00000000413fd0c1", "0x00000000410fd0c0", true},
		{"0x410fd0c0", "0x00000000410fd0c0", true},
		{"0x410fd0c0", "0x00000000411fd0c0", false},
		{"0x410fd0d0", "0x00000000410fd0c0", false},
		{"", "0x00000000410fd0c0", false},
		{"", "GenuineIntel-6-2A", false},
	} {
		if got := Fits(test.cpuid, test.pattern); got != test.want {
			t.Errorf("%q fits %q: %v", test.cpuid, test.pattern, got)
		}
	}
}

func TestID(t *testing.T) {
	for id, want := range map[string]string{
		"GenuineIntel,6,142,10": "GenuineIntel-6-8E-A", "AuthenticAMD,25,97,2": "AuthenticAMD-25-61-2", "0x410fd0c0": "0x410fd0c0", "": "",
		"A,1,x,2": "A,1,x,2",
	} {
		if got := ID(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}

// Each model in the program can be decoded, has events, and its names are unique.
func TestEmbedded(t *testing.T) {
	a, err := opened()
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20 // bytes in the program
	if len(embedded) > limit {
		t.Errorf("the tables have %d bytes", len(embedded))
	}
	events, metrics := 0, 0
	for _, cpu := range a.cpus {
		text, err := a.text(cpu.Model)
		if err != nil {
			t.Fatal(err)
		}
		var table Table
		if err := table.parse(text); err != nil {
			t.Fatal(err)
		}
		if len(table.events) == 0 {
			t.Errorf("%s has no events", cpu.Model)
		}
		for i, e := range table.events {
			if i > 0 && e.PMU == table.events[i-1].PMU && e.Name <= table.events[i-1].Name {
				t.Errorf("%s: event %s of %s comes after %s", cpu.Model, e.Name, e.PMU, table.events[i-1].Name)
			}
		}
		events, metrics = events+len(table.events), metrics+len(table.metrics)
	}
	least := map[string][2]int{"amd64": {46000, 5900}, "arm64": {4000, 600}}[runtime.GOARCH]
	if events < least[0] || metrics < least[1] {
		t.Errorf("got %d events and %d metrics, want at least %v", events, metrics, least)
	}
}

// The largest table: the most that naming an event costs.
func BenchmarkForCPU(b *testing.B) {
	cpu := map[string]string{"amd64": "GenuineIntel-6-55-7", "arm64": "0x410fd830"}[runtime.GOARCH]
	b.ReportAllocs()
	for b.Loop() {
		data, err := openArchive(embedded)
		if err != nil {
			b.Fatal(err)
		}
		if t, err := data.table(cpu); err != nil || t.Model() == "" {
			b.Fatalf("got table of %q, %v", t.Model(), err)
		}
	}
}
