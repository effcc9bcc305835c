package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bperf/bperf/perfdata"
)

func (h header) pmus() {
	if pmus, ok := feature[perfdata.PMUMappings](h, perfdata.FeaturePMUMappings); ok {
		var list []string
		for _, p := range pmus {
			list = append(list, fmt.Sprintf("%s = %d", p.Name, p.Type))
		}
		h.line("pmu mappings: %s", available(list))
	}
}

// available joins the parts of a list that perf calls "not available" where it is empty.
func available(parts []string) string { return cmp.Or(strings.Join(parts, ", "), "not available") }

func (h header) cpuCaps() {
	if caps, ok := feature[perfdata.CPUPMUCaps](h, perfdata.FeatureCPUPMUCaps); ok {
		h.caps("cpu", caps)
	}
}

func (h header) pmuCaps() {
	pmus, _ := feature[perfdata.PMUCaps](h, perfdata.FeaturePMUCaps)
	for _, p := range pmus {
		h.caps(p.PMU, p.Caps)
	}
}

func (h header) caps(pmu string, caps []perfdata.PMUCap) {
	var list []string
	for _, c := range caps {
		list = append(list, c.Name+"="+c.Value)
	}
	h.line("%s pmu capabilities: %s", pmu, available(list))
}

// clockResolution prints 1000 times the resolution in nanoseconds as a frequency. That is wrong unless it is 1 ns, but it is perf's line.
func (h header) clockResolution() {
	if ns, ok := feature[perfdata.ClockResolution](h, perfdata.FeatureClockID); ok {
		h.line("clockid frequency: %d MHz", 1000*uint64(ns))
	}
}

// clockNames are the names of the clocks of clock_gettime(2) that perf events can have.
var clockNames = map[uint32]string{0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}

func (h header) clock() {
	c, ok := feature[perfdata.ClockData](h, perfdata.FeatureClockData)
	if !ok {
		return
	}
	name := cmp.Or(clockNames[c.ClockID], "(not found)")
	wall := time.Unix(int64(c.WallClock/1e9), int64(c.WallClock%1e9))
	h.line("clockid: %s (%d)", name, c.ClockID)
	h.line("reference time: %s = %d.%06d (TOD) = %d.%09d (%s)", wall.Format("2006-01-02 15:04:05.000000"), c.WallClock/1e9, c.WallClock%1e9/1e3,
		c.Clock/1e9, c.Clock%1e9, name)
}
