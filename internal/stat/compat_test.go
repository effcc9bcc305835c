package stat

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCompat(t *testing.T) {
	for version, want := range map[string]Compat{"6.1": Perf61, "7.3": Perf73} {
		if got, err := ParseCompat(version); got != want || err != nil {
			t.Errorf("%s: got %v, %v", version, got, err)
		}
	}
	for _, version := range []string{"", "5", "6", "6.10", "7.2", " 7.3"} {
		if _, err := ParseCompat(version); err == nil {
			t.Errorf("%q: no error", version)
		}
	}
}

// TestMetricNames73 compares names and units with those that perf 7.2 prints above the columns of `perf stat -ddd --metric-only -A`.
func TestMetricNames73(t *testing.T) {
	want := map[string]string{
		"CPUs_utilized":                  "CPUs  CPUs_utilized",
		"cs_per_second":                  "cs/sec  cs_per_second",
		"migrations_per_second":          "migrations/sec  migrations_per_second",
		"page_faults_per_second":         "faults/sec  page_faults_per_second",
		"cycles_frequency":               "GHz  cycles_frequency",
		"frontend_cycles_idle":           "frontend_cycles_idle",
		"backend_cycles_idle":            "backend_cycles_idle",
		"insn_per_cycle":                 "instructions  insn_per_cycle",
		"stalled_cycles_per_instruction": "stalled_cycles_per_instruction",
		"branch_frequency":               "M/sec  branch_frequency",
		"branch_miss_rate":               "%  branch_miss_rate",
		"l1d_miss_rate":                  "%  l1d_miss_rate",
		"l1_prefetch_miss_rate":          "%  l1_prefetch_miss_rate",
		"l1i_miss_rate":                  "%  l1i_miss_rate",
		"llc_miss_rate":                  "%  llc_miss_rate",
		"dtlb_miss_rate":                 "%  dtlb_miss_rate",
		"itlb_miss_rate":                 "%  itlb_miss_rate",
		"cache_miss_rate":                "%  cache_miss_rate", // bperf's own
	}
	got := make(map[string]string)
	for i := range metrics {
		if m := &metrics[i]; m.Description != "" {
			shown := Metric{Name: m.Name, in73: m.in73}
			got[m.Name] = shown.shown73().column
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMetricNames(t *testing.T) {
	got, err := MetricNames("ipc, GHZ,CPUs_Utilized")
	if diff := cmp.Diff([]string{"insn_per_cycle", "cycles_frequency", "CPUs_utilized"}, got); diff != "" || err != nil {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
	if _, err := MetricNames("ipc,nosuch"); err == nil {
		t.Error("no error for nosuch")
	}
}
