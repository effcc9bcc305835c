package main

import (
	"slices"
	"strings"
	"testing"
	"time"

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
		{"a test that does not end", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n    --- PASS: TestB/x (0.00s)\n", `
Failed:
    (cut short): TestB had not ended

2 passed, 1 failed
`},
		{"a test that prints what looks like a result", "it said --- FAIL: TestA (0.00s)\n", "\n0 passed, 0 failed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var copied, summary strings.Builder
			tl := tally{to: &copied}
			for piece := range slices.Chunk([]byte(tt.in), 7) {
				if _, err := tl.Write(piece); err != nil {
					t.Fatal(err)
				}
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

// TestRun starts commands that end, that do not, and that leave something behind which holds their output.
func TestRun(t *testing.T) {
	for _, tt := range []struct{ name, script, want, err string }{
		{"ends", "echo 1; echo 2 >&2", "1\n2\n", ""},
		{"fails", "exit 3", "", "exit status 3"},
		{"hangs", "echo 1; sleep 1000; echo 2", "1\n", "sh: not ended after 500ms"},
		{"leaves a process behind", "echo 1; setsid sleep 20 & exit 0", "1\n", "exec: WaitDelay expired before I/O complete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var copied strings.Builder
			timeout := time.Minute
			if tt.name == "hangs" {
				timeout = 500 * time.Millisecond
			}
			got := ""
			if err := run(&tally{to: &copied}, timeout, []string{"sh", "-c", tt.script}); err != nil {
				got = err.Error()
			}
			if copied.String() != tt.want || got != tt.err {
				t.Errorf("%q and error %q, want %q and %q", copied.String(), got, tt.want, tt.err)
			}
		})
	}
}
