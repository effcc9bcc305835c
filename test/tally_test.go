package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/require"
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
		{"a skip has its reason, a failure the command that repeats it", `=== RUN   TestA
    a_test.go:7: needs root
--- SKIP: TestA (0.00s)
PASS
ok  	github.com/bperf/bperf/internal/a	0.003s	[arm64/trixie]
=== RUN   TestB
=== RUN   TestB/1_+_1
    b_test.go:9: got 1, want 2
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/1_+_1 (0.00s)
FAIL
FAIL	github.com/bperf/bperf/internal/b	0.003s	[arm64/trixie]
FAIL
`, `
Skipped:
    arm64/trixie internal/a: TestA: needs root

Failed:
    arm64/trixie internal/b: TestB/1_+_1
        go run ./test/guest -perf -kernel arm64/trixie -run '^TestB$/^1_\+_1$' ./internal/b

0 passed, 2 failed
`},
		{"what the host tests is no skip", "    a_test.go:7: " + require.HostRunsIt + "\n--- SKIP: TestA (0.00s)\nok  \texample.com/a\t0.003s\n", "\n0 passed, 0 failed\n"},
		{"a package that does not compile", "FAIL	github.com/bperf/bperf/b [build failed]\n", `
Failed:
    arm64/trixie b: the package (build failed)
        go run ./test/guest -perf -kernel arm64/trixie ./b

0 passed, 1 failed
`},
		{"a test that does not end", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n    --- PASS: TestB/x (0.00s)\n", `
Failed:
    arm64/trixie b: TestB (not ended)
        go run ./test/guest -perf -kernel arm64/trixie -run '^TestB$' ./b

2 passed, 1 failed
`},
		{"a test that prints what looks like a result", "it said --- FAIL: TestA (0.00s)\n", "\n0 passed, 0 failed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var copied, summary strings.Builder
			r := &run{tally: newTally(&copied, where{kernel: "arm64/trixie", pkg: "b"})}
			for piece := range slices.Chunk([]byte(tt.in), 7) {
				if _, err := r.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			r.end()
			printTallies(&summary, []*run{r})
			if copied.String() != tt.in {
				t.Errorf("the copy differs: %q", copied.String())
			}
			if diff := cmp.Diff(tt.want, summary.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTimes checks the times of tests on this machine, which are printed, and in a guest, which are measured by this machine's clock.
func TestTimes(t *testing.T) {
	const output = "=== RUN   TestA\n=== RUN   TestA/x\n--- PASS: TestA (2.50s)\n    --- PASS: TestA/x (0.00s)\nok  \tgithub.com/bperf/bperf/a\t9s\n"
	for kernel, want := range map[string]time.Duration{host: 2500 * time.Millisecond, "arm64/trixie": 2 * time.Second} {
		tl := newTally(&strings.Builder{}, where{kernel: kernel})
		tl.since = time.Unix(0, 0)
		now := tl.since
		tl.now = func() time.Time { now = now.Add(time.Second); return now } // at each start and end of a test
		if _, err := tl.Write([]byte(output)); err != nil {
			t.Fatal(err)
		}
		test := []took{{where: kernel, pkg: "a", test: "TestA", wall: want}}
		if diff := cmp.Diff(test, tl.tests, cmp.AllowUnexported(took{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kernel, diff)
		}
		if len(tl.packages) != 1 || tl.packages[0].wall < 3*time.Second {
			t.Errorf("%s: packages took %v", kernel, tl.packages)
		}
	}
}

func TestAgain(t *testing.T) {
	for _, tt := range []struct {
		where     where
		pkg, test string
		want      string
	}{
		{where{kernel: host}, "internal/a", "TestA", "go test -count=1 -v -run '^TestA$' ./internal/a"},
		{where{kernel: host}, "internal/a", "", "go test -count=1 -v ./internal/a"},
		{where{kernel: host, race: true}, "internal/a", "TestA/b's_(1)", `CGO_ENABLED=1 go test -race -count=1 -v -run '^TestA$/^b.s_\(1\)$' ./internal/a`},
		{where{kernel: "arm64/testing", flags: "-cpu cortex-a72 "}, "a", "", "go run ./test/guest -perf -cpu cortex-a72 -kernel arm64/testing ./a"},
		{where{kernel: "amd64/trixie"}, "internal/a", "TestA", "go run ./test/guest -perf -kernel amd64/trixie -run '^TestA$' ./internal/a"},
	} {
		if got := tt.where.again(tt.pkg, tt.test); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
