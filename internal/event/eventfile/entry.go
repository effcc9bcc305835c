package eventfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/pattern"
)

// Entry is an object of a file, by the keys of the kernel's files: an event, a metric, both, or something else.
type Entry map[string]string

// isEvent and isMetric report what the entry describes.
func (e Entry) isEvent() bool  { return e["EventName"] != "" }
func (e Entry) isMetric() bool { return e["MetricName"] != "" && e["MetricExpr"] != "" }

// Limits of values, in bytes.
const (
	maxName   = 255
	maxCompat = 255 // each pattern is compiled
)

// event returns the event that the entry describes.
func (e Entry) event() (vendor.Event, error) {
	terms, period, err := e.terms()
	scale, unit := e.scale()
	event := vendor.Event{
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
		Text:       e.text(),
	}
	if err == nil && (len(event.Name) > maxName || strings.Trim(event.Name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "") {
		err = fmt.Errorf("a name has at most %d letters, digits and characters of \"_.-\"", maxName)
	}
	return event, cmp.Or(err, e.checkCompat(), printable(event.PMU, event.Terms, event.Unit, event.Errata, event.Compat))
}

// metric returns the metric that the entry describes.
func (e Entry) metric() (vendor.Metric, error) {
	metric := vendor.Metric{
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
		Text:            e.text(),
	}
	return metric, cmp.Or(e.checkCompat(), printable(metric.Name, metric.Expr, e["MetricGroup"], e["MetricgroupNoGroup"], metric.ScaleUnit, metric.Threshold,
		metric.Constraint, metric.PMU, metric.DefaultGroup, metric.Compat, metric.AggregationMode))
}

// checkCompat returns an error if the pattern is too long.
func (e Entry) checkCompat() error {
	if len(e["Compat"]) > maxCompat {
		return fmt.Errorf("its Compat has more than %d bytes", maxCompat)
	}
	return nil
}

// printable returns an error if a value has characters that could end a line or move the cursor of a terminal.
func printable(values ...string) error {
	for _, value := range values {
		if i := strings.IndexFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			return fmt.Errorf("%.40q has a character that cannot be printed", value[i:])
		}
	}
	return nil
}

// text returns the descriptions, or nil if there are none. Long is empty if it says no more than Brief.
func (e Entry) text() *vendor.Text {
	t := vendor.Text{Brief: sentence(e["BriefDescription"]), Long: sentence(e["PublicDescription"])}
	switch {
	case t == vendor.Text{}:
		return nil
	case t.Brief == "":
		t.Brief = t.Long
	}
	if strings.Contains(t.Brief, t.Long) {
		t.Long = ""
	}
	return &t
}

// sentence returns a description in one line, without a full stop at its end.
func sentence(text string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
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
var own = pattern.Lazy(`^(cpu_|uncore_|hisi_|imx|ali_|arm_|software$|tool$)`)

// pmu returns the PMU of an entry as in vendor.Event.PMU.
func (e Entry) pmu() string {
	unit := e["Unit"]
	switch {
	case unit == "":
		return ""
	case pmus[unit] != "":
		return pmus[unit]
	case own().MatchString(unit):
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
func (e Entry) terms() (terms string, period uint64, err error) {
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

var scaled = pattern.Lazy(`^([0-9.]+(?:[eE][-+]?[0-9]+)?)(.*)$`)

// scale returns an event's scale and unit.
func (e Entry) scale() (float64, string) {
	m := scaled().FindStringSubmatch(e["ScaleUnit"])
	if m == nil {
		return 1, ""
	}
	scale, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 1, ""
	}
	return scale, m[2]
}
