package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event/vendor"
)

// entry is an object of the JSON files: an event, a metric, both, or something else. Some values are numbers in the files.
type entry map[string]string

// readEntries returns the objects of the JSON files in a directory. It skips files that hold no list, which describe groups of metrics.
func readEntries(dir string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var objects []map[string]any
		if err := decoder.Decode(&objects); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, object := range objects {
			e := entry{}
			for key, value := range object {
				e[key] = fmt.Sprint(value)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// standard has the entries that models of an architecture refer to with ArchStdEvent, by name in lower case.
type standard map[string]entry

func readStandard(dir string) (standard, error) {
	entries, err := readEntries(dir)
	s := standard{}
	for _, e := range entries {
		for _, key := range []string{"EventName", "MetricName"} {
			if e[key] != "" {
				s[strings.ToLower(e[key])] = e
			}
		}
	}
	return s, err
}

// complete returns an entry with what it takes from the architecture's entry.
func (s standard) complete(e entry) (entry, error) {
	name := e["ArchStdEvent"]
	if name == "" {
		return e, nil
	}
	of, ok := s[strings.ToLower(name)]
	if !ok {
		return nil, fmt.Errorf("the architecture has no event %s", name)
	}
	whole := entry{}
	for key, value := range of {
		whole[key] = value
	}
	for key, value := range e {
		whole[key] = value
	}
	return whole, nil
}

// model is what is known of a CPU model, or of all.
type model struct {
	events  []vendor.Event
	metrics []vendor.Metric
}

// readModel returns the events and metrics in a directory.
func readModel(dir string, std standard) (model, error) {
	entries, err := readEntries(dir)
	var m model
	for _, e := range entries {
		if err != nil {
			break
		}
		if e, err = std.complete(e); err == nil {
			err = m.add(e)
		}
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

func (m *model) add(e entry) error {
	if e["EventName"] != "" {
		event, err := e.event()
		if err != nil {
			return fmt.Errorf("event %s: %w", e["EventName"], err)
		}
		m.events = append(m.events, event)
	}
	if e["MetricName"] != "" && e["MetricExpr"] != "" {
		m.metrics = append(m.metrics, e.metric())
	}
	return nil
}

func (e entry) event() (vendor.Event, error) {
	terms, period, err := e.terms()
	scale, unit := e.scale()
	return vendor.Event{
		Name:       strings.ToLower(strings.TrimSpace(e["EventName"])),
		PMU:        e.pmu(),
		Terms:      terms,
		Period:     period,
		Scale:      scale,
		Unit:       unit,
		PerPkg:     e["PerPkg"] == "1",
		Deprecated: e["Deprecated"] == "1",
		Errata:     e["Errata"],
		Compat:     e["Compat"],
	}, err
}

func (e entry) metric() vendor.Metric {
	return vendor.Metric{
		Name:            e["MetricName"],
		Expr:            strings.Join(strings.Fields(e["MetricExpr"]), " "),
		Groups:          list(e["MetricGroup"]),
		NoGroup:         list(e["MetricgroupNoGroup"]),
		ScaleUnit:       e["ScaleUnit"],
		Threshold:       strings.Join(strings.Fields(e["MetricThreshold"]), " "),
		Constraint:      e["MetricConstraint"],
		PMU:             e.pmu(),
		DefaultGroup:    e["DefaultMetricgroupName"],
		Compat:          e["Compat"],
		AggregationMode: e["AggregationMode"],
		ShowEvents:      e["DefaultShowEvents"] == "1",
		PerPkg:          e["PerPkg"] == "1",
	}
}

func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ";"), func(s string) bool { return s == "" })
}

// pmus has the PMUs whose name does not follow from the unit's name.
var pmus = map[string]string{
	"CBO":    "uncore_cbox",
	"iMPH-U": "uncore_arb",
	"L3PMC":  "amd_l3",
	"DFPMC":  "amd_df",
	"UMCPMC": "amd_umc",
}

// own matches units that are the names of PMUs.
var own = regexp.MustCompile(`^(cpu_|uncore_|hisi_|imx|ali_|arm_|software$|tool$)`)

// pmu returns the PMU of an entry as in vendor.Event.PMU.
func (e entry) pmu() string {
	unit := e["Unit"]
	switch {
	case unit == "":
		return ""
	case pmus[unit] != "":
		return pmus[unit]
	case own.MatchString(unit):
		return unit
	}
	return "uncore_" + strings.ToLower(unit)
}

// numbers have the terms that are numbers: the key in the JSON files and the name of the term.
var numbers = [][2]string{
	{"AnyThread", "any"},
	{"PortMask", "ch_mask"},
	{"CounterMask", "cmask"},
	{"EdgeDetect", "edge"},
	{"FCMask", "fc_mask"},
	{"Invert", "inv"},
	{"UMask", "umask"},
	{"NodeType", "type"},
	{"RdWrMask", "rdwrmask"},
	{"EnAllCores", "enallcores"},
	{"EnAllSlices", "enallslices"},
	{"SliceId", "sliceid"},
	{"ThreadMask", "threadmask"},
}

// registers have the terms for the value of an MSR, by the MSR's number.
var registers = map[uint64]string{
	0x1a6: "offcore_rsp",
	0x1a7: "offcore_rsp",
	0x3f6: "ldlat",
	0x3f7: "frontend",
}

// fixed are events that are counted by a fixed counter. The code in the JSON files is that of the counter; the kernel finds the counter by
// these codes (arch/x86/events/intel/core.c, intel_perfmon_event_map). They have the same period on all models.
var fixed = map[string]string{
	"inst_retired.any":            "event=0xc0",
	"inst_retired.any_p":          "event=0xc0",
	"cpu_clk_unhalted.ref":        "event=0x0,umask=0x3",
	"cpu_clk_unhalted.thread":     "event=0x3c",
	"cpu_clk_unhalted.core":       "event=0x3c",
	"cpu_clk_unhalted.thread_any": "event=0x3c,any=0x1",
}

const fixedPeriod = 2000003

// terms returns the terms of an event as in a file of sysfs, and its sampling period.
func (e entry) terms() (terms string, period uint64, err error) {
	number := func(key string) uint64 {
		text, _, _ := strings.Cut(e[key], ",") // of several codes the first is enough
		if text == "" || err != nil {
			return 0
		}
		var n uint64
		if n, err = strconv.ParseUint(strings.TrimSpace(text), 0, 64); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return n
	}
	var all []string
	term := func(name string, n uint64) { all = append(all, fmt.Sprintf("%s=%#x", name, n)) }
	switch {
	case e["ConfigCode"] != "":
		term("config", number("ConfigCode"))
	case e["LegacyConfigCode"] != "":
		term("config", number("LegacyConfigCode"))
	case e["EventidCode"] != "":
		term("eventid", number("EventidCode"))
	default:
		term("event", number("EventCode")|number("ExtSel")<<8)
	}
	for _, of := range numbers {
		if n := number(of[0]); n != 0 {
			term(of[1], n)
		}
	}
	if e["Filter"] != "" {
		all = append(all, strings.TrimSpace(e["Filter"]))
	}
	if name := registers[number("MSRIndex")]; name != "" && e["MSRValue"] != "" {
		term(name, number("MSRValue"))
	}
	if text, ok := fixed[strings.ToLower(e["EventName"])]; ok {
		return text, fixedPeriod, err
	}
	period = number("SampleAfterValue")
	return strings.Join(all, ","), period, err
}

var scaled = regexp.MustCompile(`^([0-9.]+(?:[eE][-+]?[0-9]+)?)(.*)$`)

// scale returns an event's scale and unit.
func (e entry) scale() (float64, string) {
	m := scaled.FindStringSubmatch(e["ScaleUnit"])
	if m == nil {
		return 1, ""
	}
	scale, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 1, ""
	}
	return scale, m[2]
}
