package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTally(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", "\n0 passed, 0 failed\n"},
		{"all pass", `=== RUN   TestA
=== RUN   TestA/x
--- PASS: TestA (0.00s)
    --- PASS: TestA/x (0.00s)
PASS
ok  	example.com/a	0.003s
`, "\n2 passed, 0 failed\n"},
		{"a skip has its reason, a failure its package", `=== RUN   TestA
    a_test.go:7: needs root
--- SKIP: TestA (0.00s)
PASS
ok  	example.com/a	0.003s
=== RUN   TestB
    b_test.go:9: got 1, want 2
--- FAIL: TestB (0.00s)
FAIL
FAIL	example.com/b	0.003s	[arm64/trixie]
FAIL
`, `
Skipped:
    example.com/a: TestA: needs root

Failed:
    example.com/b [arm64/trixie]: TestB

0 passed, 1 failed
`},
		{"a package that does not compile", "FAIL	example.com/b [build failed]\n", `
Failed:
    example.com/b [build failed]: (the package)

0 passed, 1 failed
`},
		{"output that stops in the middle", "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\n", `
Failed:
    (cut short): TestB

1 passed, 1 failed
`},
		{"a test that prints what looks like a result", "it said --- FAIL: TestA (0.00s)\n", "\n0 passed, 0 failed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tl tally
			var copied, summary strings.Builder
			if err := tl.copy(&copied, strings.NewReader(tt.in)); err != nil {
				t.Fatal(err)
			}
			tl.print(&summary)
			if copied.String() != tt.in {
				t.Errorf("the copy differs: %q", copied.String())
			}
			if diff := cmp.Diff(tt.want, summary.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
