package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/stat"
	"github.com/bperf/bperf/perfdata"
)

func newListCommand() *cobra.Command {
	var l lister
	var describe bool
	var output, eventFiles string
	cmd := &cobra.Command{
		Use:   "list [flags] [KIND|GLOB]...",
		Short: "List the events that can be counted",
		Long: `List the events that can be counted on this machine.

KIND is hw, sw, cache, tool, pmu, raw, breakpoint, tracepoint, metric or metricgroup. Anything else is a pattern for names of
events, such as 'sched:*', or a part of a name. Without arguments it lists all events. Metrics and groups of metrics are those of
stat -M. perf's kind sdt is empty.

bperf opens each hardware, cache or software event to find out whether the machine has it.`,
		Example: `  bperf list hw cache
  bperf list 'sched:*' faults
  bperf list --json pmu | jq -r '.[].EventName'`,
		ValidArgs: []string{"hw", "sw", "cache", "tool", "pmu", "raw", "breakpoint", "tracepoint", "metric", "metricgroup"},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.err = cmd.ErrOrStderr()
			l.machine = hostWith(eventFiles, func(s string) { fmt.Fprintf(l.err, "Warning: %s\n", printable.Lines(s)) })
			l.counts = counts
			l.noDesc = !describe
			return writeOutput(cmd, output, func(w io.Writer) error {
				l.out = w
				return l.run(args)
			})
		},
	}
	flags := cmd.Flags()
	addJSONFlag(flags, &l.json, "print a JSON array, with the keys that perf list has")
	flags.BoolVar(&l.all, "all", false, "also list generic events that this machine does not have")
	flags.BoolVarP(&describe, "desc", "d", true, "print descriptions: --no-desc prints none")
	flags.BoolVarP(&l.long, "long-desc", "v", false, "print the longer of two descriptions; event files have them")
	flags.BoolVar(&l.details, "details", false, "also print how the kernel encodes each event")
	flags.BoolVar(&l.names, "raw-dump", false, "print only names, in one line, as completion of shells uses them")
	flags.StringVar(&l.unit, "unit", "", "list only events of this `PMU`")
	flags.StringVarP(&output, "output", "o", "", "write the list to `FILE`")
	addEventFiles(flags, &eventFiles)
	addPerfOptions(flags, listPerfOptions)
	return cmd
}

// lister lists events.
type lister struct {
	machine *event.Machine
	counts  func(*event.Event) bool // reports whether the kernel can count the event
	out     io.Writer
	err     io.Writer

	json, all, noDesc, details bool
	long                       bool   // print longer descriptions
	names                      bool   // print only names, in one line
	unit                       string // list only events of this PMU; empty for all
}

// listed is an event, and whether the machine has it.
type listed struct {
	event.Description
	available bool
	metric    *vendor.Metric // a metric of the CPU's vendor, or nil
}

func (l *lister) run(args []string) error {
	selectors := make([]selector, len(args))
	for i, arg := range args {
		selectors[i] = newSelector(arg)
	}
	events, err := l.describe()
	if err != nil {
		return err
	}
	tracepoints, err := l.tracepoints(selectors)
	if err != nil {
		fmt.Fprintf(l.err, "Warning: tracepoints are not listed: %v\n", err)
	}
	events = append(events, tracepoints...)
	if slices.ContainsFunc(selectors, func(s selector) bool { return s.kind == metricKind || s.kind == metricGroupKind }) {
		metrics, err := l.metrics()
		if err != nil {
			return err
		}
		events = append(events, metrics...)
	}

	var chosen []listed
	used := make([]bool, len(selectors))
	for i, s := range selectors {
		used[i] = s.isKind && !(err != nil && s.tracepoints()) // a kind can have no events, as in perf, but its events must be known
	}
	for _, e := range events {
		wanted := len(selectors) == 0
		for i, s := range selectors {
			if s.selects(e.Description) {
				used[i], wanted = true, true
			}
		}
		if wanted && (l.unit == "" || e.PMU == l.unit) {
			chosen = append(chosen, e)
		}
	}
	if err := l.print(chosen); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	if i := slices.Index(used, false); i >= 0 {
		return &exitError{Status: 1, Err: l.unmatched(args[i])}
	}
	return nil
}

func (l *lister) unmatched(arg string) error {
	if l.all {
		return fmt.Errorf("no event matches %q", arg)
	}
	return fmt.Errorf("no event of this machine matches %q; --all also lists events that this machine does not have", arg)
}

// describe returns all events except tracepoints: the ones that the machine has, or with --all every known one.
func (l *lister) describe() ([]listed, error) {
	descriptions, err := l.machine.Describe()
	var events []listed
	for _, d := range descriptions {
		if e := (listed{Description: d, available: l.available(d)}); e.available || l.all {
			events = append(events, e)
		}
	}
	return events, err
}

// available reports whether the machine has an event, by opening it. An event in sysfs and bperf's own events are always available.
func (l *lister) available(d event.Description) bool {
	name := d.Name
	switch d.Kind {
	case event.ToolEvent, event.PMUEvent:
		return true
	case event.Raw:
		return d.PMU != ""
	case event.Breakpoint:
		name = "mem:0x1000/1:w"
	}
	list, err := l.machine.Parse(name)
	return err == nil && slices.ContainsFunc(list.Events(), l.counts)
}

// counts reports whether the kernel can count the event for the calling thread. It returns true if only permission or a free counter is
// missing, because the event exists then.
func counts(e *event.Event) bool {
	attr := e.Attr
	attr.Flags |= perfdata.AttrDisabled | perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	opened, err := perfevent.Open(&attr, perfevent.Where{Thread: 0, CPU: perfevent.AnyCPU})
	if err == nil {
		opened.Close()
		return true
	}
	absent := []error{syscall.ENOENT, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.EINVAL, syscall.ENOSYS}
	return !slices.ContainsFunc(absent, func(a error) bool { return errors.Is(err, a) })
}

// tracepoints returns all tracepoints if a selector can select one.
func (l *lister) tracepoints(selectors []selector) ([]listed, error) {
	if len(selectors) > 0 && !slices.ContainsFunc(selectors, selector.tracepoints) {
		return nil, nil
	}
	names, err := l.machine.Tracepoints()
	var events []listed
	for _, name := range names {
		d := event.Description{Name: name, Kind: event.Tracepoint, PMU: "tracepoint", Scale: 1}
		events = append(events, listed{Description: d, available: true})
	}
	return events, err
}

// metrics returns the metrics of stat -M, and the groups of them. They are listed only on request, because they are no events.
func (l *lister) metrics() ([]listed, error) {
	var all []listed
	add := func(kind event.Kind, name string, text vendor.Text, m *vendor.Metric) {
		all = append(all, listed{event.Description{Name: name, Kind: kind, Text: text.Brief, Long: text.Long, Scale: 1}, true, m})
	}
	for _, m := range stat.Metrics() {
		add(metricKind, m.Name, vendor.Text{Brief: m.Description}, nil)
	}
	metrics, err := l.machine.VendorMetrics()
	var groups []string
	for _, m := range metrics {
		var text vendor.Text
		if m.Text != nil {
			text = *m.Text
		}
		if !stat.HasMetric(m.Name) {
			add(metricKind, m.Name, text, &m)
		}
		groups = append(groups, m.Groups...)
	}
	slices.Sort(groups)
	for _, g := range slices.Compact(groups) {
		add(metricGroupKind, g, vendor.Text{}, nil)
	}
	return all, err
}

// kindWords maps the words for kinds on the command line, including perf's, to kinds.
var kindWords = map[string]event.Kind{
	"hw": event.Hardware, "hardware": event.Hardware,
	"sw": event.Software, "software": event.Software,
	"cache": event.Cache, "hwcache": event.Cache,
	"tool": event.ToolEvent, "pmu": event.PMUEvent, "raw": event.Raw,
	"breakpoint": event.Breakpoint, "tracepoint": event.Tracepoint,
	"metric": metricKind, "metrics": metricKind,
	"metricgroup": metricGroupKind, "metricgroups": metricGroupKind,
	"sdt": noKind,
}

// These kinds are no events: metrics of stat -M and groups of them, and perf's kind of which bperf has none.
const (
	metricKind event.Kind = -1 - iota
	metricGroupKind
	noKind
)

// selector is an argument: a kind, or a pattern for event names.
type selector struct {
	kind    event.Kind
	isKind  bool
	pattern string
}

func newSelector(arg string) selector {
	if kind, ok := kindWords[arg]; ok {
		return selector{kind: kind, isKind: true}
	}
	if !strings.ContainsAny(arg, "*?[") {
		arg = "*" + arg + "*"
	}
	return selector{pattern: fold(strings.ReplaceAll(arg, "[!", "[^"))}
}

// fold makes names and patterns comparable: it converts them to lower case and replaces slashes, which wildcards of path.Match do not
// match.
func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }

func (s selector) tracepoints() bool { return !s.isKind || s.kind == event.Tracepoint }

func (s selector) selects(d event.Description) bool {
	if s.isKind {
		return d.Kind == s.kind
	}
	match := func(name string) bool {
		ok, err := path.Match(s.pattern, fold(name))
		return ok && err == nil
	}
	if match(d.Name) || slices.ContainsFunc(d.Aliases, match) {
		return true
	}
	_, own, ok := strings.Cut(strings.TrimSuffix(d.Name, "/"), "/")
	return ok && d.Kind == event.PMUEvent && match(own)
}

// kindTitles maps the kinds to perf's titles.
var kindTitles = map[event.Kind]string{
	event.Hardware: "Hardware event", event.Cache: "Hardware cache event", event.Software: "Software event",
	event.ToolEvent: "Tool event", event.PMUEvent: "Kernel PMU event", event.Raw: "Raw hardware event descriptor",
	event.Breakpoint: "Hardware breakpoint", event.Tracepoint: "Tracepoint event", metricKind: "Metric",
	metricGroupKind: "Metric group",
}

func (l *lister) print(events []listed) error {
	if l.json {
		return l.printJSON(events)
	}
	var text strings.Builder
	if l.names {
		for _, e := range events {
			if !e.Syntax {
				text.WriteString(e.Name + " ")
			}
		}
		_, err := io.WriteString(l.out, strings.TrimSuffix(text.String(), " ")+"\n")
		return err
	}
	for i, e := range events {
		if i > 0 && e.Kind != events[i-1].Kind {
			text.WriteByte('\n')
		}
		name := strings.Join(append([]string{e.Name}, e.Aliases...), " OR ")
		fmt.Fprintf(&text, "  %-50s [%s]", name, kindTitles[e.Kind])
		if !e.available {
			text.WriteString(" (not on this machine)")
		}
		text.WriteByte('\n')
		if desc := e.sentence(l.long); desc != "" && !l.noDesc {
			fmt.Fprintf(&text, "       [%s]\n", desc)
		}
		if l.details {
			text.WriteString(l.encoding(e))
		}
	}
	_, err := io.WriteString(l.out, text.String())
	return err
}

// encoding returns a line with the PMU and the config of an event, or the expression of a metric of the CPU's vendor. It is empty for
// events that no PMU counts, and for forms of events.
func (l *lister) encoding(e listed) string {
	switch {
	case e.metric != nil:
		return "        " + e.metric.Expr + "\n"
	case e.Syntax, e.Kind == event.ToolEvent, e.Kind == metricKind, e.Kind == metricGroupKind:
		return ""
	}
	list, err := l.machine.Parse(e.Name)
	if err != nil {
		return ""
	}
	of := list.Events()[0]
	term := map[event.Kind]string{event.Hardware: "legacy-hardware-config", event.Cache: "legacy-cache-config"}[e.Kind]
	config := of.Attr.Config
	if term != "" {
		config &= 1<<perfdata.PMUTypeShift - 1 // without the PMU of a hybrid CPU
	}
	text := fmt.Sprintf("        %s/%s=%#x", cmp.Or(e.PMU, of.PMU, "cpu"), cmp.Or(term, "config"), config)
	for i, config := range []uint64{of.Attr.Config1, of.Attr.Config2, of.Attr.Config3} {
		if config != 0 {
			text += fmt.Sprintf(",config%d=%#x", i+1, config)
		}
	}
	return text + "/\n"
}

// sentence returns the event's description, the longer one if there is one and it is wanted, and its unit.
func (e listed) sentence(long bool) string {
	text := e.Text
	if long {
		text = cmp.Or(e.Long, text)
	}
	var parts []string
	if text != "" {
		parts = append(parts, printable.Text(text))
	}
	if e.Unit != "" {
		parts = append(parts, "Unit: "+e.Unit)
	}
	return strings.Join(parts, ". ")
}

// listedJSON is an event with the keys of perf list -j.
type listedJSON struct {
	Unit             string `json:"Unit,omitempty"` // the PMU: perf names the key Unit
	EventName        string `json:"EventName,omitempty"`
	MetricGroup      string `json:"MetricGroup,omitempty"`
	MetricName       string `json:"MetricName,omitempty"`
	MetricExpr       string `json:"MetricExpr,omitempty"`
	MetricThreshold  string `json:"MetricThreshold,omitempty"`
	EventAlias       string `json:"EventAlias,omitempty"`
	EventType        string `json:"EventType"`
	BriefDescription string `json:"BriefDescription,omitempty"`
	LongDescription  string `json:"PublicDescription,omitempty"`
	ScaleUnit        string `json:"ScaleUnit,omitempty"`
	Available        *bool  `json:"Available,omitempty"` // with --all
}

func (l *lister) printJSON(events []listed) error {
	array := make([]listedJSON, len(events))
	for i, e := range events {
		array[i] = listedJSON{
			Unit: e.PMU, EventName: e.Name, EventAlias: strings.Join(e.Aliases, ","), EventType: kindTitles[e.Kind],
			BriefDescription: e.Text, LongDescription: e.Long,
		}
		switch e.Kind {
		case metricKind:
			array[i].EventName, array[i].MetricName = "", e.Name
		case metricGroupKind:
			array[i].EventName, array[i].MetricGroup = "", e.Name
		}
		if m := e.metric; m != nil {
			array[i].MetricGroup, array[i].MetricExpr, array[i].MetricThreshold = strings.Join(m.Groups, ";"), m.Expr, m.Threshold
			array[i].ScaleUnit = m.ScaleUnit
		}
		if e.Scale != 1 || e.Unit != "" {
			array[i].ScaleUnit = strconv.FormatFloat(e.Scale, 'g', -1, 64) + e.Unit
		}
		if l.all {
			array[i].Available = &e.available
		}
	}
	return documentEncoder(l.out, "").Encode(array)
}
