package event

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse: for any input, Parse returns a list, or an error with a position in the input.
func FuzzParse(f *testing.F) {
	var machines []*Machine
	for _, machine := range []string{"hybrid", "amd", "arm64", "arm64-one"} {
		machines = append(machines, fake(f, machine))
		data, err := os.ReadFile(filepath.Join("testdata", machine+".parse"))
		if err != nil {
			f.Fatal(err)
		}
		for _, input := range stanzaInputs(string(data)) {
			f.Add(input)
		}
	}
	f.Add(strings.Repeat("{", 10000))
	f.Add(strings.Repeat("cs,", 1000) + "cs")
	f.Add(strings.Repeat("*", 1000) + ":" + strings.Repeat("*a", 500))
	f.Add("*:*,*:*,*:*,*:*")
	f.Add("cpu_*/event=" + strings.Repeat("9", 5000) + "/")
	f.Add("r" + strings.Repeat("f", 5000))
	f.Add("cpu/name='\xff\x00\x1b[31m'/u")
	f.Add("[:]")
	f.Fuzz(func(t *testing.T, in string) {
		for _, m := range machines {
			list, err := m.Parse(in)
			if err != nil {
				checkSyntaxError(t, in, err)
				continue
			}
			events := list.Events()
			if len(events) == 0 {
				t.Fatalf("%q: neither events nor an error", in)
			}
			for i, e := range events {
				if e.Name == "" || e.PMU == "" || e.Term < 0 || e.Term > i {
					t.Fatalf("%q: incomplete event %+v", in, e)
				}
			}
		}
	})
}

func checkSyntaxError(t *testing.T, in string, err error) {
	t.Helper()
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		t.Fatalf("%q: %v is no *SyntaxError", in, err)
	}
	if syntax.Input != in || syntax.Pos < 0 || syntax.Pos > len(in) || syntax.Msg == "" {
		t.Fatalf("%q: position %d of %q: %q", in, syntax.Pos, syntax.Input, syntax.Msg)
	}
	text := err.Error()
	lines := strings.Split(text, "\n")
	if utf8.RuneCountInString(lines[1]) > 110 {
		t.Fatalf("%q: the line of the input is too long: %q", in, lines[1])
	}
	if strings.ContainsAny(text, "\x00\x1b") {
		t.Fatalf("%q: the error has control characters: %q", in, text)
	}
}
