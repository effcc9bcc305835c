package eventfile

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzDecode: entries of any file make events and metrics whose facts can be printed, or errors.
func FuzzDecode(f *testing.F) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "files.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		if strings.HasSuffix(file.Name, ".json") {
			f.Add(file.Data)
		}
	}
	f.Add([]byte("\xef\xbb\xbf[null]"))
	f.Add([]byte(strings.Repeat("[", 20000)))
	f.Add([]byte(`{"Events":[{"EventName":"A","Filter":"Filter1","FILTER_VALUE":"\u202e","Unit":"CBO"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Decode(data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without text")
			}
			return
		}
		std := Standard{}
		std.Add(entries)
		var m Model
		for _, e := range entries {
			_ = m.Add(e, std) // one that cannot be used must not spoil the others
		}
		for _, e := range m.Events {
			if e.Name == "" || len(e.Name) > maxName {
				t.Fatalf("the name %q", e.Name)
			}
			check(t, e.Name, e.PMU, e.Terms, e.Unit, e.Errata, e.Compat)
		}
		for _, metric := range m.Metrics {
			if metric.Name == "" || metric.Expr == "" {
				t.Fatalf("the metric %+v", metric)
			}
			check(t, metric.Name, metric.Expr, metric.ScaleUnit, metric.Threshold, metric.PMU, strings.Join(metric.Groups, ""))
		}
		m.Table()
	})
}

func check(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q cannot be printed", value)
		}
	}
}

// FuzzReadMap: any map is read or gives an error, within its limits.
func FuzzReadMap(f *testing.F) {
	f.Add("Family-model,Version,Filename,EventType\nGenuineIntel-6-(97|9A),v1,x,core\n")
	f.Add("GenuineIntel-6-97,V1,/ADL/events/x.json,hybridcore,0x20,0x000001,Atom\n")
	f.Add("\"a\nb\",c,d,e")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := ReadMap(strings.NewReader(text))
		if err == nil && len(rows) > maxRows {
			t.Fatalf("%d rows", len(rows))
		}
		for _, row := range rows {
			if len(row.Pattern) > maxPattern {
				t.Fatalf("a pattern of %d bytes", len(row.Pattern))
			}
			for _, name := range fetchedNames(row, "GenuineIntel-6-97-2") {
				if strings.Contains(name, "/") {
					t.Fatalf("the name %q is not in the directory", name)
				}
			}
		}
	})
}
