package kernel

import (
	"os"
	"runtime"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestExamine examines the running kernel. As root, it must find the features that every kernel here has.
func TestExamine(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	if _, err := Examine(); err != nil { // the first time, Go's runtime opens descriptors of its own
		t.Fatal(err)
	}
	before := descriptors(t)
	report, err := Examine()
	if err != nil {
		t.Fatal(err)
	}
	if !report.CanCount {
		t.Error("nothing can be counted")
	}
	states := make(map[string]Finding)
	for _, f := range report.Findings {
		if _, twice := states[f.Feature]; twice {
			t.Errorf("%s is there twice", f.Feature)
		}
		states[f.Feature] = f
	}
	for _, feature := range []string{
		"counting own processes", "counting the system", "counting cgroups", "tracepoints",
		"sampling by timer", "BPF programs", "BPF on perf events", "BTF of the kernel", "BPF run statistics",
	} {
		if f := states[feature]; f.State != Works {
			t.Errorf("%s: %s: %s", feature, f.State, f.Detail)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// TestLockdown detects lockdown without securityfs, which guests do not mount.
func TestLockdown(t *testing.T) {
	require.Lockdown(t)
	report, err := Examine()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]State{"lockdown": Limited, "tracepoints": Missing, "BPF on perf events": Works}
	for _, f := range report.Findings {
		if state, ok := want[f.Feature]; ok && f.State != state {
			t.Errorf("%s: %s: %s, want %s", f.Feature, f.State, f.Detail, state)
		}
	}
}

// TestCounters checks the number of counters, which is known for the PMU of the arm64 guest.
func TestCounters(t *testing.T) {
	require.PMU(t)
	if runtime.GOARCH != "arm64" {
		t.Skip("the number of counters is known of the arm64 guest only")
	}
	x := examiner{proc: os.DirFS("/proc")}
	const want = "7 at once (cycles and instructions in a group)"
	if f := x.pmu(); f.State == Missing || f.Detail[:len(want)] != want {
		t.Errorf("%s: %s, want %s", f.State, f.Detail, want)
	}
	if f := x.pmuSampling(); f.State != Works {
		t.Errorf("%s: %s: %s", f.Feature, f.State, f.Detail)
	}
}

// descriptors returns the number of open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
