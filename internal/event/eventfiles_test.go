package event

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/event/eventfile"
	"github.com/bperf/bperf/internal/event/vendor"
)

// withEventFiles returns a server whose CPU is newer than the program, with this event file, and the warnings about it.
func withEventFiles(t *testing.T, text string, named bool) (*Machine, *[]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "events.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	m := NewMachine(serverTree(), nil)
	m.OfCPU("GenuineIntel-99-1-1")
	m.AddEventFiles(&eventfile.Source{Dir: dir, Named: named}, func(w string) { warnings = append(warnings, w) })
	return m, &warnings
}

func TestEventFiles(t *testing.T) {
	m, warnings := withEventFiles(t, `[
		{"EventName": "NEW.MISS", "EventCode": "0x24", "UMask": "0x3f", "SampleAfterValue": "2003", "BriefDescription": "Misses.",
		 "PublicDescription": "Misses of the cache."},
		{"EventName": "BOTH", "EventCode": "0x1", "BriefDescription": "Of the kernel and the vendor"},
		{"EventName": "CHA.READS", "Unit": "CHA", "EventCode": "0x35", "ScaleUnit": "64Bytes", "PerPkg": "1"},
		{"MetricName": "miss_ratio", "MetricExpr": "NEW.MISS / BOTH", "BriefDescription": "Misses for each"}]`, true)
	for list, want := range map[string][]string{
		"new.miss:u":            {"0 new.miss:u @cpu 4/0x3f24 sample=2003 !kernel !hv"},
		"cpu/NEW.MISS,cmask=1/": {"0 cpu/NEW.MISS,cmask=1/ @cpu 4/0x1003f24 sample=2003"},
		"both":                  {"0 both @cpu 4/0x1"},
		"cha.reads": {"0 cha.reads @uncore_cha_0 20/0x35 cpus=0 uncore ×64 lines",
			"0 cha.reads @uncore_cha_1 21/0x35 cpus=0 uncore ×2 Bytes per-pkg"},
	} {
		events, err := m.Parse(list)
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if got := formatList(events); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", list, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	texts := map[string][2]string{}
	for _, d := range describe(t, m) {
		texts[d.Name] = [2]string{d.Text, d.Long}
	}
	for name, want := range map[string][2]string{"cpu/new.miss/": {"Misses", "Misses of the cache"}, "cpu/both/": {"Of the kernel and the vendor", ""}} {
		if texts[name] != want {
			t.Errorf("%s is described as %q, want %q", name, texts[name], want)
		}
	}
	metrics, err := m.VendorMetrics()
	if i := slices.IndexFunc(metrics, isMissRatio); err != nil || i < 0 || metrics[i].Text == nil {
		t.Errorf("got metrics %v, %v", metrics, err)
	}
	if len(*warnings) > 0 {
		t.Errorf("got warnings %q", *warnings)
	}
}

// Broken files are an error for the events of the vendor if the user named them, and one warning otherwise.
func TestBrokenEventFiles(t *testing.T) {
	m, warnings := withEventFiles(t, `[{"EventName": `, true)
	if _, err := m.Parse("cycles,cpu-clock,r1a8,cpu/event=1/"); err != nil || len(*warnings) > 0 {
		t.Errorf("events that are not the vendor's: %v, %q", err, *warnings)
	}
	for _, list := range []string{"new.miss", "cpu/new.miss/", "new.miss:u"} {
		if _, err := m.Parse(list); err == nil || !strings.Contains(err.Error(), "events.json: it ends in the middle of its JSON") {
			t.Errorf("%s: %v", list, err)
		}
	}
	if _, err := m.Describe(); err == nil {
		t.Error("Describe returns no error")
	}
	if _, err := m.VendorMetrics(); err == nil {
		t.Error("VendorMetrics returns no error")
	}

	m, warnings = withEventFiles(t, `[{"EventName": `, false)
	for range 2 {
		if _, err := m.Parse("new.miss"); err == nil || !strings.Contains(err.Error(), "there is no event new.miss") {
			t.Errorf("a default directory: %v", err)
		}
	}
	if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "event files are not used") {
		t.Errorf("a default directory: got warnings %q", *warnings)
	}
}

func isMissRatio(m vendor.Metric) bool { return m.Name == "miss_ratio" && m.Expr == "NEW.MISS / BOTH" }
