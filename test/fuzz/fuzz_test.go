package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const pkg = `package decoder

import "testing"

func FuzzAll(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(*testing.T, []byte) {})
}

func FuzzOne(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 1 {
			t.Fatalf("%d bytes", len(b))
		}
	})
}
`

// TestFinds fuzzes a target that accepts all inputs, and one that accepts few.
func TestFinds(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module example.org/decoder\n\ngo 1.26\n", "decoder_test.go": pkg} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := &builder{dir: t.TempDir(), binaries: map[string]binary{}}
	var r results
	for target, each := range map[string]time.Duration{"FuzzAll": time.Second, "FuzzOne": time.Hour} { // the second ends when it finds an input
		d, err := b.decoder(t.Context(), ".:"+target)
		if err != nil {
			t.Fatal(err)
		}
		d.cache = t.TempDir()
		of := d.fuzz(t.Context(), each)
		r.pkg, r.targets = of.pkg, append(r.targets, of.targets...)
	}
	slices.SortFunc(r.targets, func(a, b result) int { return strings.Compare(a.target, b.target) })
	want := regexp.MustCompile(`^=== RUN   FuzzAll
    fuzz: elapsed: .*
--- PASS: FuzzAll \(.*
=== RUN   FuzzOne
(?s:.*)
    \| .*\d bytes
(?s:.*)
    \| go test fuzz v1
    \| \[\]byte\(".*"\)
    exit status 1
--- FAIL: FuzzOne \(.*
FAIL	example.org/decoder	.*	\[fuzzing\]
$`)
	if got := r.text(); !r.failed() || !want.MatchString(got) {
		t.Errorf("failed: %v, got\n%s", r.failed(), got)
	}

	if d, err := b.decoder(t.Context(), "."); err != nil || !slices.Equal(d.targets, []string{"FuzzAll", "FuzzOne"}) {
		t.Errorf("got targets %v, %v", d.targets, err)
	}
	_, err := b.decoder(t.Context(), ".:FuzzAll,FuzzNone")
	if want := ". has no fuzz target FuzzNone: it has FuzzAll, FuzzOne"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOnlyTimeWasOver(t *testing.T) {
	const over = "fuzz: elapsed: 1m0s, execs: 7 (0/sec), new interesting: 0 (total: 2)\n--- FAIL: FuzzOne (60.04s)\n    context deadline exceeded\n"
	tests := []struct {
		name, said string
		want       bool
	}{
		{"time", over + "FAIL\n", true},
		{"an input, too", strings.Replace(over, "    context", "    Failing input written to testdata/fuzz/FuzzOne/7\n    context", 1), false},
		{"a test that says so", "--- FAIL: FuzzOne (0.04s)\n    --- FAIL: FuzzOne (0.00s)\n        a_test.go:7: context deadline exceeded\n", false},
		{"all was well", "--- PASS: FuzzOne (60.04s)\nPASS\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := onlyTimeWasOver(tt.said); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
